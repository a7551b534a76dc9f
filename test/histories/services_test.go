package histories

// This file has what histories draw of namespaces that are seen, and of Services.

// discovery draws which namespaces are seen.
func (d draw) discovery() string {
	return "discoverySelectors: " + pick(d,
		"[{matchLabels: {mesh: here}}]",
		"[{matchLabels: {mesh: here}}, {matchExpressions: [{key: topology.istio.io/network, operator: Exists}]}]",
		"[{matchExpressions: [{key: mesh, operator: NotIn, values: [elsewhere]}]}]",
		"[{matchLabels: {mesh: nowhere}}]",
		"[{}]",
	)
}

// seen draws the label of a Namespace by which it is seen.
func (d draw) seen() string { return pick(d, "", ", mesh: here", ", mesh: here", ", mesh: elsewhere") }

func (d draw) distribution() string { return pick(d, "PreferClose", "PreferSameNode") }
