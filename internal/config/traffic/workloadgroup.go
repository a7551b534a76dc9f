package traffic

import (
	"maps"
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// WorkloadGroup holds the rules of https://istio.io/latest/docs/reference/config/networking/workload-group/ that
// the schema cannot say.
func WorkloadGroup(c *rule.Check, wg *networking.WorkloadGroup) {
	at := report.Spec()
	meta := at.Key("metadata")
	labels := meta.Key("labels")
	checkLabels(c, &labels, wg.Metadata.GetLabels())
	template := at.Key("template")
	for _, name := range slices.Sorted(maps.Keys(wg.Template.GetPorts())) {
		ports := template.Key("ports")
		c.Port(ports.Key(name), wg.Template.Ports[name])
	}
	labels = template.Key("labels")
	checkLabels(c, &labels, wg.Template.GetLabels())
	if wg.Probe == nil {
		return
	}
	probe := at.Key("probe")
	if wg.Probe.HealthCheckMethod == nil {
		c.Fail(probe, code.Missing, "the probe does not say how to check", "set httpGet, tcpSocket, exec or grpc")
	}
	if h := wg.Probe.GetHttpGet(); h != nil && h.Scheme != "" && !rule.OneOf(h.Scheme, "HTTP", "HTTPS") {
		get := probe.Key("httpGet")
		c.Fail(get.Key("scheme"), code.UnknownValue, strconv.Quote(h.Scheme)+" is not a scheme", "write HTTP or HTTPS")
	}
}
