package proxyconfig

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/ctl/output"
)

var endpointHeader = []string{"ENDPOINT", "STATUS", "OUTLIER CHECK", "CLUSTER", "LOCALITY"}

// countHeader are the columns that only Envoy's own view has.
var countHeader = []string{"REQUESTS", "ERRORS", "CONNECTIONS"}

// endpoint is one endpoint of a cluster.
type endpoint struct {
	address  map[string]any
	status   string
	outlier  string // of Envoy's view: OK or FAILED
	cluster  string
	locality map[string]any
	counts   []string // of Envoy's view
}

// loadRows are the endpoints of a load assignment, as they were sent.
func loadRows(f *filter, m message) (rows [][]string) {
	for _, group := range objects(m.body, "endpoints") {
		for _, e := range objects(group, "lbEndpoints") {
			status := text(e, "healthStatus")
			if status == "" || status == "UNKNOWN" {
				status = "HEALTHY"
			}
			rows = f.add(rows, endpoint{
				address: object(e, "endpoint", "address"), status: status, cluster: m.name, locality: object(group, "locality"),
			})
		}
	}
	return rows
}

// statusRows are the endpoints of a cluster as Envoy sees them.
func statusRows(f *filter, cluster map[string]any) (rows [][]string) {
	for _, h := range objects(cluster, "hostStatuses") {
		health := object(h, "healthStatus")
		status := text(health, "edsHealthStatus")
		if status == "" || status == "UNKNOWN" {
			status = "HEALTHY"
		}
		if health["failedActiveHealthCheck"] == true {
			status = "UNHEALTHY"
		}
		outlier := "OK"
		if health["failedOutlierCheck"] == true {
			outlier = "FAILED"
		}
		rows = f.add(rows, endpoint{
			address: object(h, "address"), status: status, outlier: outlier, cluster: text(cluster, "name"),
			locality: object(h, "locality"), counts: countsOf(h),
		})
	}
	return rows
}

func countsOf(host map[string]any) []string {
	counts := map[string]uint64{}
	for _, s := range objects(host, "stats") {
		n, err := strconv.ParseUint(number(s, "value"), 10, 64)
		if err == nil {
			counts[text(s, "name")] = n
		}
	}
	return []string{
		fmt.Sprint(counts["rq_total"]), fmt.Sprint(counts["rq_error"] + counts["cx_connect_fail"]), fmt.Sprint(counts["cx_total"]),
	}
}

// add adds a row, unless the filter leaves it out.
func (f *filter) add(rows [][]string, e endpoint) [][]string {
	host, port := socketOf(e.address)
	isHealthy := e.status == "HEALTHY" && e.outlier != "FAILED"
	switch {
	case !f.hasPort(port), f.address != "" && host != f.address, !strings.Contains(e.cluster, f.cluster),
		f.status != "" && isHealthy != strings.EqualFold(f.status, "healthy"):
		return rows
	}
	shown := host
	if port != "" {
		shown = net.JoinHostPort(host, port)
	}
	row := []string{shown, e.status, output.OrDash(e.outlier), e.cluster, output.OrDash(localityOf(e.locality))}
	return append(rows, append(row, e.counts...))
}

func localityOf(l map[string]any) string {
	parts := []string{text(l, "region"), text(l, "zone"), text(l, "subZone")}
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return strings.Join(parts, "/")
}

// clusterStatuses parses Envoy's page /clusters?format=json; false: the text is another page.
func clusterStatuses(raw []byte) (out []map[string]any, is bool, err error) {
	tree, err := parse(raw)
	if err != nil {
		return nil, false, err
	}
	if tree["clusterStatuses"] == nil {
		return nil, false, nil
	}
	out = objects(tree, "clusterStatuses")
	slices.SortStableFunc(out, func(a, b map[string]any) int { return strings.Compare(text(a, "name"), text(b, "name")) })
	return out, true, nil
}

// asList returns the bodies of messages, as istioctl prints them.
func asList(all []message) any {
	out := make([]map[string]any, 0, len(all))
	for _, m := range all {
		out = append(out, m.body)
	}
	return out
}
