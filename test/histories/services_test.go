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

// seen draws the label of a Namespace that discoverySelectors select by.
func (d draw) seen() string { return pick(d, "", ", mesh: here", ", mesh: here", ", mesh: elsewhere") }

func (d draw) distribution() string { return pick(d, "PreferClose", "PreferSameNode") }

// nodePort draws an east-west gateway that is entered by Nodes.
func (d draw) nodePort() string {
	return ", labels: {topology.istio.io/network: " + pick(d, "n1", "n2") + "}, annotations: {traffic.istio.io/nodeSelector: " +
		pick(d, `"{}"`, `'{"role": "edge"}'`, `"no"`) + "}}\nspec: {type: NodePort, ports: [{name: tls, port: " + pick(d, "15443", "443") +
		"}], selector: {app: " + pick(d, "a", "b") + "}, externalTrafficPolicy: " + pick(d, "Local", "Cluster") + "}"
}
