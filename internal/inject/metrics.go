package inject

import (
	"encoding/json"
	"fairway/internal/inject/edit"
	"strconv"
)

// prometheusVariable is the variable from which the agent reads how to scrape the application's own metrics.
const prometheusVariable = "ISTIO_PROMETHEUS_ANNOTATIONS"

// mergeMetrics points Prometheus' usual annotations at the agent, which serves the application's metrics beside the proxy's. It returns the
// application's own annotations for the agent; empty: it has none. If the pod refuses to be scraped, nothing changes.
func mergeMetrics(annotations map[string]any, port int) (string, error) {
	scraped, said := annotations[prometheusScrape].(string)
	on, err := strconv.ParseBool(scraped)
	if said && (err != nil || !on) {
		return "", nil //nolint:nilerr // anything but a yes is a no
	}
	var own []byte
	if said {
		if own, err = json.Marshal(map[string]string{
			"scrape": scraped,
			"port":   edit.Text(annotations, prometheusPort),
			"path":   edit.Text(annotations, prometheusPath),
		}); err != nil {
			return "", err
		}
	}
	annotations[prometheusScrape] = "true"
	annotations[prometheusPort] = strconv.Itoa(port)
	annotations[prometheusPath] = "/stats/prometheus"
	return string(own), nil
}
