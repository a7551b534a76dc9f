package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// Keys of MeshConfig.defaultConfig.proxyMetadata for settings of the mesh's administrator that Istio's MeshConfig has no field for.
const (
	extensionPrefix = "FAIRWAY_"

	// LocalEndpointsKey lists the namespaces that may have rules that send proxies of every namespace, gateways too, to loopback and
	// link-local addresses and to unix sockets: names joined by commas, "*" for all.
	LocalEndpointsKey = extensionPrefix + "ALLOW_LOCAL_ENDPOINTS"
	// SecretAccountsKey lists the service accounts that may have the Secrets of their namespace: namespace/account joined by commas,
	// namespace/* for all of one.
	SecretAccountsKey = extensionPrefix + "SECRET_SERVICE_ACCOUNTS"
	// LabelAccountsKey lists the service accounts with trusted proxies: labels that these proxies set themselves count. It is written like
	// SecretAccountsKey. For other proxies, only labels that objects give to their account count.
	LabelAccountsKey = extensionPrefix + "LABEL_SERVICE_ACCOUNTS"
	// LuaKey lists the namespaces where EnvoyFilters and TrafficExtensions may run Lua: names joined by commas, "*" for all, an empty list
	// for none. If the key is missing, all may. The root namespace always may.
	LuaKey = extensionPrefix + "LUA"
	// BudgetKey sets what one object and one namespace may make: name=number joined by commas (BudgetOf).
	BudgetKey = extensionPrefix + "BUDGET"
	// OwnershipKey sets which clients rules of other namespaces count for: OwnershipDefault or OwnershipStrict.
	OwnershipKey = extensionPrefix + "OWNERSHIP"
	// GatewayNamespacesKey lists the namespaces with Gateways that may use files and Secrets of gateways in other namespaces. In strict
	// mode it also lists the namespaces with Gateways that may select gateways in other namespaces. Names joined by commas, "*" for all.
	GatewayNamespacesKey = extensionPrefix + "GATEWAY_NAMESPACES"
	// NetworkGatewayNamespacesKey lists the namespaces with Services that may be gateways of networks: names joined by commas, "*" for all.
	NetworkGatewayNamespacesKey = extensionPrefix + "NETWORK_GATEWAY_NAMESPACES"
)

// RulesFromAnnotation of a Service or ServiceEntry lists the namespaces with VirtualServices that may set routes for its clients: names
// joined by commas, "*" for all. In strict mode only these, the owner's and the root namespace's do.
const RulesFromAnnotation = "fairway/rules-from"

// ReferencedServices is Istio's annotation of an EnvoyFilter that lists hosts, joined by commas, which gateways need all clusters of
// because of something that the filter does not name.
const ReferencedServices = "envoyfilter.istio.io/referenced-services"

// Values of OwnershipKey.
const (
	// OwnershipDefault applies rules of other namespaces, as Istio does, and reports them as problems.
	OwnershipDefault = "default"
	// OwnershipStrict applies a rule of another namespace only to clients of its own namespace, unless the owner agrees.
	OwnershipStrict = "strict"
)

// maxExtensionItems bounds a list, and maxExtensionText its text in bytes: each is read for every row that depends on it.
const (
	maxExtensionItems = 1000
	maxExtensionText  = 64 << 10
)

// ServiceAccount names the service account of a namespace; Name "*" is every one.
type ServiceAccount struct{ Namespace, Name string }

// Holds reports whether a is this account, or all accounts of this namespace.
func (a ServiceAccount) Holds(namespace, account string) bool {
	return a.Namespace == namespace && (a.Name == "*" || a.Name == account)
}

// Extensions returns the keys of a mesh configuration that are Fairway's own, with their values; nil if there are none.
func Extensions(m *meshconfig.MeshConfig) map[string]string {
	var out map[string]string
	for k, v := range m.GetDefaultConfig().GetProxyMetadata() {
		if strings.HasPrefix(k, extensionPrefix) {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}

// Namespaces reads a value that lists namespaces (LocalEndpointsKey, LuaKey, GatewayNamespacesKey, NetworkGatewayNamespacesKey, and the
// annotations RulesFromAnnotation and secret.GatewaysAnnotation): sorted, each once. Items that are not a namespace are left out.
func Namespaces(value string) []string {
	if value == "" {
		return nil
	}
	return extensionList(value, func(s string) (string, bool) { return s, isNamespaceOrAll(s) }, strings.Compare)
}

// ServiceAccounts reads the value of SecretAccountsKey and LabelAccountsKey: sorted, each once. Items that are not namespace/account are
// skipped.
func ServiceAccounts(value string) []ServiceAccount {
	return extensionList(value, parseAccount, func(a, b ServiceAccount) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
}

func extensionList[T comparable](value string, parse func(string) (T, bool), compare func(a, b T) int) []T {
	var out []T
	for s := range strings.SplitSeq(value, ",") {
		if item, ok := parse(strings.TrimSpace(s)); ok && len(out) < maxExtensionItems {
			out = append(out, item)
		}
	}
	slices.SortFunc(out, compare)
	return slices.Compact(out)
}

// ListsNamespace reports whether a list that Namespaces returned holds a namespace, or "*".
func ListsNamespace(list []string, namespace string) bool {
	return slices.Contains(list, namespace) || slices.Contains(list, "*")
}

// isNamespaceOrAll also refuses "true" and "false", because a user who writes one does not mean a namespace of that name.
func isNamespaceOrAll(s string) bool {
	return s == "*" || s != "true" && s != "false" && len(validation.IsDNS1123Label(s)) == 0
}

func parseAccount(s string) (ServiceAccount, bool) {
	namespace, name, ok := strings.Cut(s, "/")
	good := ok && len(validation.IsDNS1123Label(namespace)) == 0 && (name == "*" || len(validation.IsDNS1123Subdomain(name)) == 0)
	return ServiceAccount{namespace, name}, good
}

// checkExtensions looks at the keys of proxyMetadata that are Fairway's own. A bad value refuses the mesh
// configuration: it says who may do what.
func checkExtensions(c *rule.Check, at report.Path, m *meshconfig.MeshConfig) {
	isAccount := func(s string) bool { _, ok := parseAccount(s); return ok }
	known := map[string]struct {
		good func(string) bool
		fix  string
	}{
		LocalEndpointsKey: {isNamespaceOrAll, `write namespaces joined by commas, or "*" for all: legacy,vms`},
		LuaKey:            {isNamespaceOrAll, `write namespaces joined by commas, "*" for all, or nothing for none: platform,edge`},
		SecretAccountsKey: {isAccount, "write namespace/account joined by commas: istio-system/istio-ingressgateway"},
		LabelAccountsKey:  {isAccount, "write namespace/account joined by commas: istio-system/istio-ingressgateway"},
		BudgetKey:         {isBudget, "write name=number joined by commas: objectResources=20000,objectMiB=64,joinedRoutes=5000"},
		OwnershipKey: {
			func(s string) bool { return s == OwnershipDefault || s == OwnershipStrict },
			"write " + OwnershipDefault + " or " + OwnershipStrict,
		},
		GatewayNamespacesKey:        {isNamespaceOrAll, `write namespaces joined by commas, or "*" for all: shop,bank`},
		NetworkGatewayNamespacesKey: {isNamespaceOrAll, `write namespaces joined by commas, or "*" for all: istio-gateways`},
	}
	own := Extensions(m)
	for _, k := range slices.Sorted(maps.Keys(own)) {
		value, here := own[k], at.Key(k)
		rule, ok := known[k]
		switch {
		case !ok:
			c.Warn(here, code.UnknownExtension, strconv.Quote(printable.Text(k, printable.Short))+" means nothing to this mesh",
				"the keys that do are "+strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case len(value) > maxExtensionText || strings.Count(value, ",") >= maxExtensionItems:
			c.Fail(here, code.TooLong, "the list is too long", "write at most 1000 items, 64 KiB in all")
		default:
			checkExtension(c, here, value, rule.good, rule.fix)
		}
	}
}

// checkExtension checks the items of one list. An empty list is one of none.
func checkExtension(c *rule.Check, at report.Path, value string, good func(string) bool, fix string) {
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" && !good(item) || item == "" && strings.Contains(value, ",") {
			c.Fail(at, code.BadExtension, strconv.Quote(printable.Text(item, printable.Short))+" is not what the list takes", fix)
			return
		}
	}
}
