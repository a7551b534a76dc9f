package page

import "strings"

// ShortName is the id part of a node id: "web-1.default" of "sidecar~10.0.0.1~web-1.default~default.svc.cluster.local". What is no node id is itself.
func ShortName(node string) string {
	if parts := strings.Split(node, "~"); len(parts) == 4 {
		return parts[2]
	}
	return node
}

// Fit says how well a name that a user typed names the proxy of a node id: 3 it is the node id, 2 name.namespace (or Istio's pod/name.namespace), 1 the name alone, 0 not at all.
func Fit(node, name string) int {
	short := ShortName(node)
	name = strings.TrimPrefix(name, "pod/")
	switch {
	case name == "":
		return 0
	case node == name:
		return 3
	case short == name:
		return 2
	}
	if bare, _, ok := cutLast(short, '.'); ok && bare == name {
		return 1
	}
	return 0
}

// cutLast cuts at the last sep: names may hold dots, namespaces may not.
func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
