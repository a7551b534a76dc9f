package config

import (
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Budget limits the clusters, virtual hosts and filter chains that objects may make, and their bytes.
type Budget struct {
	ObjectResources, ObjectMiB       int // of one object
	NamespaceResources, NamespaceMiB int // of all large objects of a namespace together
	JoinedRoutes                     int // that one VirtualService gets from its delegates
}

// field returns the field that a name in BudgetKey means; nil: there is no such name.
func (b *Budget) field(name string) *int {
	switch name {
	case "objectResources":
		return &b.ObjectResources
	case "objectMiB":
		return &b.ObjectMiB
	case "namespaceResources":
		return &b.NamespaceResources
	case "namespaceMiB":
		return &b.NamespaceMiB
	case "joinedRoutes":
		return &b.JoinedRoutes
	}
	return nil
}

// objectResources is how many resources one object may make by default: they are built in one turn, in 0.2 to 0.3 s, and other changes wait
// for that. 256 hosts of 25 ports are within it.
const objectResources = 20_000

// BudgetOf returns the budget that a mesh configuration sets with BudgetKey; m is nil if there is no mesh configuration. Values that it
// does not set, or sets wrongly, have their defaults.
func BudgetOf(m *meshconfig.MeshConfig) Budget {
	b := Budget{ObjectResources: objectResources, ObjectMiB: 64, NamespaceResources: 200_000, NamespaceMiB: 256, JoinedRoutes: 5_000}
	for item := range strings.SplitSeq(m.GetDefaultConfig().GetProxyMetadata()[BudgetKey], ",") {
		if isBudget(strings.TrimSpace(item)) {
			name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
			*b.field(name), _ = strconv.Atoi(value)
		}
	}
	return b
}

// isBudget reports whether an item of BudgetKey names a bound and a positive number.
func isBudget(item string) bool {
	name, value, _ := strings.Cut(item, "=")
	n, err := strconv.Atoi(value)
	return new(Budget).field(name) != nil && err == nil && n > 0 && n <= 1<<30
}
