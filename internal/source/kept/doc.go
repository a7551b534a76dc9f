// Package kept writes down what a cluster's source handed in last, as bytes, and reads it back, so that a control plane which
// is started while the cluster is away still knows its endpoints.
//
// It writes services, endpoints, workloads, machines and namespaces, and rules if the caller wants them, but never Secrets.
// Content that is read back is checked as if a stranger had written it, rules as fresh ones are: a file that is broken, too
// large, of another cluster or of another version of the program is an error that says so.
//
// The package must not know where the bytes are kept, nor for how long they count.
package kept
