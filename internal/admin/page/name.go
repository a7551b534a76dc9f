package page

import "strings"

// ShortName returns the id part of a node id: "web-1.default" of "sidecar~10.0.0.1~web-1.default~default.svc.cluster.local". It returns any
// other text unchanged.
func ShortName(node string) string {
	if parts := strings.Split(node, "~"); len(parts) == 4 {
		return parts[2]
	}
	return node
}

// NodeAddress returns the address in a node id; empty: it has another form.
func NodeAddress(node string) string {
	if parts := strings.Split(node, "~"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

// Key returns a proxy's full name: "shop/web|" and the node id. If the proxy proved no identity, it is '|' and the node id.
func Key(node, identity string) string { return identity + "|" + node }

// Fit rates how well a name that a user typed matches the proxy of a node id and an identity (namespace/service account; empty: none was
// proved): 4 the key, 3 the node id, 2 name.namespace (or Istio's pod/name.namespace), 1 the name alone, 0 no match.
func Fit(node, identity, name string) int {
	short := ShortName(node)
	pod := strings.TrimPrefix(name, "pod/")
	switch {
	case name == "":
		return 0
	case Key(node, identity) == name:
		return 4
	case node == name:
		return 3
	case short == pod:
		return 2
	}
	if bare, _, ok := cutLast(short, '.'); ok && bare == pod {
		return 1
	}
	return 0
}

// Account returns "namespace/service account" of a SPIFFE identity, the form that keys use; empty: it is not the identity of a workload.
func Account(spiffe string) string {
	_, rest, _ := strings.Cut(spiffe, "/ns/")
	namespace, account, ok := strings.Cut(rest, "/sa/")
	if !ok || namespace == "" || account == "" {
		return ""
	}
	return namespace + "/" + account
}

// cutLast cuts at the last sep: names may hold dots, namespaces may not.
func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
