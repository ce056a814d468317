/* Graphs as a structure: nodes, edges, copies. */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

NEED_HANDLE(need_graph, Graph, HANDLE_GRAPH, need_init(), CUDA_ERROR_INVALID_VALUE)
NEED_HANDLE(need_node, Node, HANDLE_NODE, need_init(), CUDA_ERROR_INVALID_VALUE)
NEED_HANDLE(need_exec, GraphExec, HANDLE_EXEC, need_init(), CUDA_ERROR_INVALID_VALUE)

bool node_list_add(Node ***list, size_t *count, Node *node) {
    for (size_t i = 0; i < *count; i++)
        if ((*list)[i] == node) return true;
    Node **grown = realloc(*list, (*count + 1) * sizeof *grown);
    if (!grown) return false;
    grown[(*count)++] = node;
    *list = grown;
    return true;
}

static void list_remove(Node **list, size_t *count, const Node *node) {
    for (size_t i = 0; i < *count; i++)
        if (list[i] == node) {
            memmove(list + i, list + i + 1, (--*count - i) * sizeof *list);
            return;
        }
}

CUresult graph_new(Graph **graph) {
    Graph *made = registry_new(sizeof *made, HANDLE_GRAPH);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *graph = made;
    return CUDA_SUCCESS;
}

static void node_end(Node *node) {
    registry_remove(node, HANDLE_NODE);
    task_end(&node->task);
    free(node->needs);
    free(node);
}

void graph_end(Graph *graph) {
    registry_remove(graph, HANDLE_GRAPH);
    for (size_t i = 0; i < graph->count; i++) node_end(graph->nodes[i]);
    for (size_t i = 0; i < graph->object_count; i++) user_object_release(graph->objects[i], 1);
    free(graph->objects);
    free(graph->nodes);
    free(graph);
}

static bool keep_needs(Node *node, Node *const *needs, size_t count) {
    bool fits = true;
    for (size_t i = 0; i < count; i++) fits = fits && node_list_add(&node->needs, &node->need_count, needs[i]);
    return fits;
}

CUresult graph_add(Graph *graph, Task *task, Node *const *needs, size_t count, Node **node) {
    Node *made = calloc(1, sizeof *made);
    CUresult result = made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (count && !needs) result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !result; i++)
        if (need_node(needs[i]) || needs[i]->graph != graph) result = CUDA_ERROR_INVALID_VALUE;
    if (result) {
        free(made);
        task_end(task);
        return result;
    }
    *made = (Node){.graph = graph, .task = *task};
    if (keep_needs(made, needs, count) && registry_add(made, HANDLE_NODE) && node_list_add(&graph->nodes, &graph->count, made)) {
        if (node) *node = made;
        return CUDA_SUCCESS;
    }
    node_end(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

bool node_needs(const Node *node, const Node *other) {
    for (size_t i = 0; i < node->need_count; i++)
        if (node->needs[i] == other || node_needs(node->needs[i], other)) return true;
    return false;
}

/* Take nodes whose needs are met until none is left, in the order in which they were added. */
bool graph_sort(Graph *graph) {
    for (size_t sorted = 0; sorted < graph->count; sorted++) {
        size_t next = sorted;
        for (; next < graph->count; next++) {
            const Node *node = graph->nodes[next];
            size_t met = 0;
            for (size_t need = 0; need < node->need_count; need++)
                for (size_t i = 0; i < sorted; i++) met += graph->nodes[i] == node->needs[need];
            if (met == node->need_count) break;
        }
        if (next == graph->count) return false;
        Node *node = graph->nodes[next];
        memmove(graph->nodes + sorted + 1, graph->nodes + sorted, (next - sorted) * sizeof *graph->nodes);
        graph->nodes[sorted] = node;
    }
    return true;
}

Node *graph_node_of(const Graph *graph, const Node *origin) {
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->origin == origin) return graph->nodes[i];
    return NULL;
}

static bool copy_node(Graph *to, const Node *node) {
    Task task;
    Node *made;
    if (task_copy(&task, &node->task) || graph_add(to, &task, NULL, 0, &made)) return false;
    made->origin = node;
    return true;
}

Graph *graph_copy(const Graph *graph) {
    Graph *copy;
    if (graph_new(&copy)) return NULL;
    bool fits = true;
    for (size_t i = 0; i < graph->count; i++) fits = fits && copy_node(copy, graph->nodes[i]);
    for (size_t i = 0; i < graph->count && fits; i++)
        for (size_t n = 0; n < graph->nodes[i]->need_count; n++)
            fits = fits && node_list_add(&copy->nodes[i]->needs, &copy->nodes[i]->need_count,
                                         graph_node_of(copy, graph->nodes[i]->needs[n]));
    copy->objects = calloc(graph->object_count + 1, sizeof *copy->objects);
    if (fits && copy->objects) {
        for (size_t i = 0; i < graph->object_count; i++) user_object_retain(copy->objects[i] = graph->objects[i], 1);
        copy->object_count = graph->object_count;
        return copy;
    }
    graph_end(copy);
    return NULL;
}

/* ---- the calls ---- */

EXPORT CUresult cuGraphCreate(Graph **graph, unsigned flags) {
    NEED(need_init());
    NEED_VALUE(graph && !flags);
    return graph_new(graph);
}

EXPORT CUresult cuGraphDestroy(Graph *graph) {
    NEED(need_graph(graph));
    graph_end(graph);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphClone(Graph **clone, Graph *graph) {
    NEED(need_graph(graph));
    NEED_VALUE(clone);
    *clone = graph_copy(graph);
    return *clone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuGraphNodeFindInClone(Node **node, Node *origin, Graph *clone) {
    NEED(need_graph(clone));
    NEED_VALUE(node);
    *node = graph_node_of(clone, origin);
    return *node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphDestroyNode(Node *node) {
    NEED(need_node(node));
    Graph *graph = node->graph;
    for (size_t i = 0; i < graph->count; i++) list_remove(graph->nodes[i]->needs, &graph->nodes[i]->need_count, node);
    list_remove(graph->nodes, &graph->count, node);
    node_end(node);
    return CUDA_SUCCESS;
}

ANSWER(cuGraphNodeGetType, (Node *node, int *type), need_node(node), type, (int)node->task.kind)

/* As CUDA's lists work: without a place only the number is told; places that are left over get NULL. */
typedef struct {
    Node **first, **second;
    size_t room, count;
} Answer;

static void answer(Answer *list, Node *first, Node *second) {
    if (list->first && list->count < list->room) list->first[list->count] = first;
    if (list->second && list->count < list->room) list->second[list->count] = second;
    list->count++;
}

/* The newer versions tell of the edges' ports too: ours are all the plain one, zero. */
static CUresult answered(Answer *list, void *edges, size_t *count) {
    for (size_t i = list->count; i < list->room && (list->first || list->second); i++) {
        if (list->first) list->first[i] = NULL;
        if (list->second) list->second[i] = NULL;
    }
    *count = list->first && list->room < list->count ? list->room : list->count;
    if (edges) memset(edges, 0, *count * 8);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphGetNodes(Graph *graph, Node **nodes, size_t *count) {
    NEED(need_graph(graph));
    NEED_VALUE(count);
    Answer list = {nodes, NULL, *count, 0};
    for (size_t i = 0; i < graph->count; i++) answer(&list, graph->nodes[i], NULL);
    return answered(&list, NULL, count);
}

EXPORT CUresult cuGraphGetRootNodes(Graph *graph, Node **nodes, size_t *count) {
    NEED(need_graph(graph));
    NEED_VALUE(count);
    Answer list = {nodes, NULL, *count, 0};
    for (size_t i = 0; i < graph->count; i++)
        if (!graph->nodes[i]->need_count) answer(&list, graph->nodes[i], NULL);
    return answered(&list, NULL, count);
}

EXPORT CUresult cuGraphGetEdges_v2(Graph *graph, Node **from, Node **to, void *edges, size_t *count) {
    NEED(need_graph(graph));
    NEED_VALUE(count && !from == !to);
    Answer list = {from, to, *count, 0};
    for (size_t i = 0; i < graph->count; i++)
        for (size_t n = 0; n < graph->nodes[i]->need_count; n++) answer(&list, graph->nodes[i]->needs[n], graph->nodes[i]);
    return answered(&list, edges, count);
}

EXPORT CUresult cuGraphGetEdges(Graph *graph, Node **from, Node **to, size_t *count) {
    return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

EXPORT CUresult cuGraphNodeGetDependencies_v2(Node *node, Node **nodes, void *edges, size_t *count) {
    NEED(need_node(node));
    NEED_VALUE(count);
    Answer list = {nodes, NULL, *count, 0};
    for (size_t i = 0; i < node->need_count; i++) answer(&list, node->needs[i], NULL);
    return answered(&list, edges, count);
}

EXPORT CUresult cuGraphNodeGetDependencies(Node *node, Node **nodes, size_t *count) {
    return cuGraphNodeGetDependencies_v2(node, nodes, NULL, count);
}

EXPORT CUresult cuGraphNodeGetDependentNodes_v2(Node *node, Node **nodes, void *edges, size_t *count) {
    NEED(need_node(node));
    NEED_VALUE(count);
    Answer list = {nodes, NULL, *count, 0};
    const Graph *graph = node->graph;
    for (size_t i = 0; i < graph->count; i++)
        for (size_t n = 0; n < graph->nodes[i]->need_count; n++)
            if (graph->nodes[i]->needs[n] == node) answer(&list, graph->nodes[i], NULL);
    return answered(&list, edges, count);
}

EXPORT CUresult cuGraphNodeGetDependentNodes(Node *node, Node **nodes, size_t *count) {
    return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}

static CUresult check_edges(Graph *graph, Node *const *from, Node *const *to, size_t count) {
    NEED(need_graph(graph));
    NEED_VALUE(!count || (from && to));
    for (size_t i = 0; i < count; i++)
        NEED_VALUE(!need_node(from[i]) && !need_node(to[i]) && from[i]->graph == graph && to[i]->graph == graph);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddDependencies(Graph *graph, Node *const *from, Node *const *to, size_t count) {
    NEED(check_edges(graph, from, to, count));
    for (size_t i = 0; i < count; i++) {
        NEED_VALUE(from[i] != to[i] && !node_needs(from[i], to[i]));
        if (!node_list_add(&to[i]->needs, &to[i]->need_count, from[i])) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphRemoveDependencies(Graph *graph, Node *const *from, Node *const *to, size_t count) {
    NEED(check_edges(graph, from, to, count));
    for (size_t i = 0; i < count; i++) list_remove(to[i]->needs, &to[i]->need_count, from[i]);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddDependencies_v2(Graph *graph, Node *const *from, Node *const *to, const void *edges, size_t count) {
    (void)edges;
    return cuGraphAddDependencies(graph, from, to, count);
}

EXPORT CUresult cuGraphRemoveDependencies_v2(Graph *graph, Node *const *from, Node *const *to, const void *edges, size_t count) {
    (void)edges;
    return cuGraphRemoveDependencies(graph, from, to, count);
}

static const char *kind_name(TaskKind kind) {
    static const char *const NAMES[] = {"KERNEL", "MEMCPY", "MEMSET", "HOST", "GRAPH", "EMPTY", "WAIT_EVENT", "EVENT_RECORD", "", "", "MEM_ALLOC", "MEM_FREE"};
    return (size_t)kind < sizeof NAMES / sizeof *NAMES ? NAMES[kind] : "OTHER";
}

EXPORT CUresult cuGraphDebugDotPrint(Graph *graph, const char *path, unsigned flags) {
    NEED(need_graph(graph));
    NEED_VALUE(path);
    (void)flags;
    FILE *file = fopen(path, "w");
    if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
    fputs("digraph graph_of_the_cpu_reference {\n", file);
    for (size_t i = 0; i < graph->count; i++) fprintf(file, "  n%p [label=\"%s\"];\n", (void *)graph->nodes[i], kind_name(graph->nodes[i]->task.kind));
    for (size_t i = 0; i < graph->count; i++)
        for (size_t n = 0; n < graph->nodes[i]->need_count; n++)
            fprintf(file, "  n%p -> n%p;\n", (void *)graph->nodes[i]->needs[n], (void *)graph->nodes[i]);
    fputs("}\n", file);
    return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
