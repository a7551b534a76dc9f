package status

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fairway/internal/agent/epoch"
	"fairway/internal/agent/exposition"
)

// Metrics serves the metrics of Envoy, agent and application as one page, so that one scrape of one port per workload is enough.
type Metrics struct {
	// Envoy opens Envoy's own exposition.
	Envoy func(context.Context) (io.ReadCloser, error)
	// Own returns the workload of this Envoy, for the labels of the mesh's metrics.
	Own func() exposition.Workload
	// App is the application's page; empty: it has none.
	App string
	Log *slog.Logger

	http     *http.Client
	agent    http.Handler
	registry *prometheus.Registry
	scrapes  prometheus.Counter
	failures *prometheus.CounterVec
}

// NewMetrics makes the page. The agent's own metrics have the names of Istio's agent's; those of epochs, and more, are added.
func NewMetrics(epochs func() epoch.State, more ...prometheus.Collector) Metrics {
	registry := prometheus.NewRegistry()
	agent := prometheus.WrapRegistererWithPrefix("istio_agent_", registry)
	m := Metrics{
		Own: func() exposition.Workload { return exposition.Workload{} },
		// As Prometheus asks a pod: a certificate of its own says nothing here.
		http:    &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
		scrapes: prometheus.NewCounter(prometheus.CounterOpts{Name: "scrapes_total", Help: "Scrapes of this page."}),
		failures: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "scrape_failures_total", Help: "Failed scrapes of programs, by program."},
			[]string{"type"},
		),
		agent:    promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true}),
		registry: registry,
	}
	agent.MustRegister(m.scrapes, m.failures, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	agent.MustRegister(more...)
	for _, c := range []struct {
		name, help string
		value      func(epoch.State) int
	}{
		{"envoy_starts_total", "Envoys that were started.", func(s epoch.State) int { return s.Starts }},
		{"envoy_hot_restarts_total", "Epochs that took over from another.", func(s epoch.State) int { return s.Handovers }},
		{
			"envoy_failed_epochs_total",
			"Epochs that never served, while their parent served on.",
			func(s epoch.State) int { return s.Failed },
		},
		{"envoy_crashes_total", "Envoys that ended by themselves with an error.", func(s epoch.State) int { return s.Crashes }},
	} {
		agent.MustRegister(
			prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help},
				func() float64 { return float64(c.value(epochs())) }),
		)
	}
	return m
}

// Describe sends the descriptions of the agent's own metrics.
func (m Metrics) Describe(out chan<- *prometheus.Desc) { m.registry.Describe(out) }

// AppPage returns the address of the application's metrics by ISTIO_PROMETHEUS_ANNOTATIONS (the pod's prometheus.io annotations as
// JSON); "" if it is not to be scraped.
func AppPage(annotations, host string, own uint16) (string, error) {
	if strings.TrimSpace(annotations) == "" {
		return "", nil
	}
	var a struct{ Scrape, Path, Port, Scheme string }
	if err := json.Unmarshal([]byte(annotations), &a); err != nil {
		return "", err
	}
	if a.Scrape != "true" {
		return "", nil
	}
	if a.Port == "" {
		a.Port = "80"
	}
	port, err := strconv.ParseUint(a.Port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("%q is not a port", a.Port)
	}
	if uint16(port) == own {
		return "", fmt.Errorf("port %d is the agent's own", port)
	}
	u := url.URL{Scheme: a.Scheme, Host: host + ":" + a.Port, Path: a.Path}
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	if u.Path == "" {
		u.Path = "/metrics"
	}
	return u.String(), nil
}

// textFormat is requested from every program, so that their answers can follow each other on one page.
const textFormat = "text/plain; version=0.0.4; charset=utf-8"

// ServeHTTP writes the metrics that it can get: a program that does not answer hides nothing of the others.
func (m Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.scrapes.Inc()
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout(r.Header))
	defer cancel()
	w.Header().Set("Content-Type", textFormat)
	out := exposition.New(w)
	m.add(ctx, out, "envoy", inText(m.Envoy), exposition.Istio(m.Own()))
	m.add(ctx, out, "agent", inText(m.own), nil)
	if m.App != "" {
		m.add(ctx, out, "application", m.app, nil)
	}
	if err := out.Flush(); err != nil {
		m.Log.Debug("a scrape was not read to its end", "error", err)
	}
}

// opener opens the page of one program, and returns its format.
type opener func(context.Context) (io.ReadCloser, exposition.Format, error)

// inText opens a page that is written in the text format.
func inText(open func(context.Context) (io.ReadCloser, error)) opener {
	return func(ctx context.Context) (io.ReadCloser, exposition.Format, error) {
		body, err := open(ctx)
		return body, exposition.Text, err
	}
}

func (m Metrics) add(ctx context.Context, out *exposition.Merger, name string, open opener, rewrite exposition.Rewrite) {
	body, format, err := open(ctx)
	if err == nil {
		err = out.Add(body, format, rewrite)
		body.Close()
	}
	if err != nil {
		m.failures.WithLabelValues(name).Inc()
		m.Log.Warn("metrics are missing from a scrape", "of", name, "error", err)
	}
}

// app opens the application's page. Some applications write OpenMetrics whatever they are asked for.
func (m Metrics) app(ctx context.Context) (io.ReadCloser, exposition.Format, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.App, nil)
	if err != nil {
		return nil, exposition.Text, err
	}
	req.Header.Set("Accept", textFormat)
	resp, err := m.http.Do(req)
	if err != nil {
		return nil, exposition.Text, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, exposition.Text, fmt.Errorf("%s answers %s", m.App, resp.Status)
	}
	return resp.Body, exposition.FormatOf(resp.Header.Get("Content-Type")), nil
}

// own writes the agent's metrics.
func (m Metrics) own(ctx context.Context) (io.ReadCloser, error) {
	page := &page{header: http.Header{}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", textFormat)
	m.agent.ServeHTTP(page, req)
	return io.NopCloser(&page.Buffer), nil
}

// page is an answer that is not sent anywhere.
type page struct {
	bytes.Buffer
	header http.Header
}

func (p *page) Header() http.Header { return p.header }
func (p *page) WriteHeader(int)     {}

// scrapeTimeout returns how long Prometheus says that it waits, or its default.
func scrapeTimeout(h http.Header) time.Duration {
	seconds, err := strconv.ParseFloat(h.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || seconds <= 0 {
		seconds = 10
	}
	return time.Duration(seconds * float64(time.Second))
}
