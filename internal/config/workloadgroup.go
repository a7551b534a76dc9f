package config

import networking "istio.io/api/networking/v1alpha3"

// checkWorkloadGroup holds the rules of https://istio.io/latest/docs/reference/config/networking/workload-group/ that
// the schema cannot say.
func checkWorkloadGroup(c *check, wg *networking.WorkloadGroup) {
	at := c.spec()
	meta := at.key("metadata")
	labels := meta.key("labels")
	c.labels(&labels, wg.Metadata.GetLabels())
	template := at.key("template")
	for _, name := range sortedKeys(wg.Template.GetPorts()) {
		ports := template.key("ports")
		c.port(ports.key(name), wg.Template.Ports[name])
	}
	labels = template.key("labels")
	c.labels(&labels, wg.Template.GetLabels())
	if wg.Probe == nil {
		return
	}
	probe := at.key("probe")
	if wg.Probe.HealthCheckMethod == nil {
		c.fail(probe, "Missing", "the probe does not say how to check", "set httpGet, tcpSocket, exec or grpc")
	}
	if h := wg.Probe.GetHttpGet(); h != nil && h.Scheme != "" && !oneOf(h.Scheme, "HTTP", "HTTPS") {
		get := probe.key("httpGet")
		c.fail(get.key("scheme"), "UnknownValue", quote(h.Scheme)+" is not a scheme", "write HTTP or HTTPS")
	}
}
