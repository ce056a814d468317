/* An empty library that needs another one: opened by the short name, it leads to the same library (and the
 * same state) as the versioned name. A copy would be a second driver in one process. */
typedef int forward_only;
