/* Graphs: nodes with tasks, and what each waits for. */
#ifndef CPU_DRIVER_GRAPH_H
#define CPU_DRIVER_GRAPH_H

#include "task.h"

struct Node {
    Graph *graph;
    Task task;
    Node **needs;
    size_t need_count;
    const Node *origin; /* what this is a copy of; never looked into */
    bool disabled;      /* in an instantiated graph */
};

typedef struct UserObject UserObject;

struct Graph {
    Node **nodes;
    size_t count;
    UserObject **objects;
    size_t object_count;
};

struct GraphExec {
    Graph *graph; /* its nodes are in an order in which they may run */
    uint64_t flags;
    unsigned references;
};

CUresult need_graph(const Graph *graph);
CUresult need_node(const Node *node);
CUresult need_exec(const GraphExec *exec);
/* The task is taken over, also on an error. */
CUresult graph_add(Graph *graph, Task *task, Node *const *needs, size_t count, Node **node);
CUresult graph_new(Graph **graph);
bool graph_sort(Graph *graph); /* false: its edges run in a circle */
Node *graph_node_of(const Graph *graph, const Node *origin);
bool node_list_add(Node ***list, size_t *count, Node *node);
bool node_needs(const Node *node, const Node *other); /* directly or through others */

/* Objects that live as long as a graph does */
void user_object_retain(UserObject *object, unsigned count);
void user_object_release(UserObject *object, unsigned count);

#endif
