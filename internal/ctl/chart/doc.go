// Package chart reads a chart of Helm and fills in its templates, with the same result as Helm for what the project's chart uses: values
// with defaults, schemas, a chart in it with a condition, and templates. chart.go reads, values.go completes and validates values, fill.go
// executes templates, order.go sorts objects.
//
// Helm's own packages link all kinds of Kubernetes and a client for each, which would be a sixth of all code that the project compiles.
//
// It must not know a cluster, nor what the chart contains.
package chart
