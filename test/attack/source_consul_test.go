package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairway/test/rig"
)

// hostileConsul answers as a Consul does that has so many services.
type hostileConsul struct {
	services int
	entries  func(service int) string                                 // a list of instances
	hostile  func(w http.ResponseWriter, q *http.Request) (done bool) // answers first; nil: nothing does

	answered sync.Map // services that were answered for
	count    atomic.Int64
	sent     sent // all services
}

func (h *hostileConsul) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("X-Consul-Index", "7")
	w.Header().Set("Content-Type", "application/json")
	if h.hostile != nil && h.hostile(w, q) {
		return
	}
	if at := q.URL.Query().Get("index"); at != "" && at != "0" {
		<-q.Context().Done() // nothing changes
		return
	}
	name := path.Base(q.URL.Path)
	switch {
	case q.URL.Path == "/v1/status/leader":
		_, _ = io.WriteString(w, `"127.0.0.1:8300"`)
	case q.URL.Path == "/v1/catalog/services":
		all := map[string][]string{}
		for i := range h.services {
			all[fmt.Sprintf("s-%d", i)] = []string{}
		}
		_ = json.NewEncoder(w).Encode(all)
	case strings.HasPrefix(q.URL.Path, "/v1/health/service/s-"):
		i, err := strconv.Atoi(strings.TrimPrefix(name, "s-"))
		if err != nil {
			http.Error(w, "no number", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, h.entries(i))
		if _, was := h.answered.LoadOrStore(i, true); !was && h.count.Add(1) == int64(h.services) {
			h.sent.now()
		}
	default:
		_, _ = io.WriteString(w, "[]")
	}
}

func consulEntry(service, n int, more string) string {
	const text = `{"Node":{"Node":"n","Datacenter":"dc1"},"Service":{"ID":"%d-%d","Service":"s-%[1]d","Address":"10.%[3]d.%[4]d.1","Port":80%[5]s}}`
	return fmt.Sprintf(text, service, n, service/250, service%250, more)
}

const consulOptions = "consul: {urls: ['%s']"

// Services of a Consul that have more ports together than are kept have the last ones left out.
func TestConsulOfManyPorts(t *testing.T) {
	ports := `,"Ports":[` + items(90, ",", `{"Name":"p-%d","Port":2%04[1]d}`) + "]"
	h := &hostileConsul{services: 700, entries: func(i int) string { return "[" + consulEntry(i, 0, ports) + "]" }}
	r := startRegistry(t, consulOptions, h)
	r.meanwhile(t, func() { r.tellsSoon(t, &h.sent, "of at most 20000 ports") })
	r.holds(t)
}

// Subsets of a DestinationRule that all select the thousands of instances of a Consul's service are estimated, not built.
func TestSubsetsOfAConsulsService(t *testing.T) {
	h := &hostileConsul{services: 1, entries: func(int) string {
		return "[" + items(4096, ",", strings.ReplaceAll(consulEntry(0, 7, ""), "-7\"", "-%d\"")) + "]"
	}}
	r := startRegistry(t, consulOptions, h)
	r.connect(t, sidecarIn("evil"))
	rule := func(labels string) string {
		return listed("DestinationRule", networkingGroup, "subsets", "{host: s-0.service.consul, subsets: [%s]}",
			list{2000, "{name: v%d" + labels + "}"})
	}
	r.meanwhile(t, func() {
		r.put(t, "hostile.yaml", rule(""))
		r.says(t, "with 8192000 endpoints in all subsets of a port")
	})
	r.put(t, "hostile.yaml", rule(", labels: {version: v%[1]d}"))
	rig.Eventually(t, func() error {
		if text := r.page(t, "/debug/problems"); strings.Contains(text, "OverBudget") {
			return fmt.Errorf("subsets that share the endpoints: %.2000s", text)
		}
		return nil
	})
	r.holds(t)
}

// Labels of a Consul's instances that are more bytes than are kept are left out with their services, and tags of a MiB by themselves.
func TestConsulOfManyBytes(t *testing.T) {
	labels := `,"Meta":{` + items(99, ",", `"label-%d":"`+strings.Repeat("x", 500)+`"`) + "}"
	tags := `,"Tags":["` + strings.Repeat("x", 1<<20) + `"]`
	h := &hostileConsul{services: 140, entries: func(i int) string {
		if i == 0 {
			return "[" + consulEntry(i, 0, tags) + "]"
		}
		return "[" + items(20, ",", strings.ReplaceAll(consulEntry(i, 7, labels), "-7\"", "-%d\"")) + "]"
	}}
	r := startRegistry(t, consulOptions, h)
	r.meanwhile(t, func() {
		r.tellsAllSoon(t, telling{sent: &h.sent, what: "of at most 100663296 bytes"},
			telling{sent: &h.sent, what: "1 instances have more than 1024 KiB"})
	})
	r.holds(t)
}

// Answers of a Consul that are bombs once they are decoded, and 16 large ones side by side, are read one at a time and in bounds.
func TestConsulOfLargeAnswers(t *testing.T) {
	large := "[" + items(60, ",", strings.ReplaceAll(consulEntry(1, 7, `,"Meta":{"long":"`+strings.Repeat("y", 1<<20-1000)+`"}`), "-7\"", "-%d\"")) + "]"
	h := &hostileConsul{services: 20}
	h.entries = func(i int) string {
		if i < 16 {
			return large
		}
		return "[" + consulEntry(i, 0, "") + "]"
	}
	var bombed, nested sent
	h.hostile = func(w http.ResponseWriter, q *http.Request) bool {
		if strings.HasSuffix(q.URL.Path, "/v1/health/service/s-17") {
			zipped(w, "[{}", ",{}", 300)
			bombed.now()
			return true
		}
		if strings.HasSuffix(q.URL.Path, "/v1/health/service/s-18") {
			// More than sockets hold, so that it is sent once the program reads it: the large answers wait for each other.
			_, _ = io.WriteString(w, `[{"Service":{"Meta":`+strings.Repeat(`{"a":`, 5<<20))
			nested.now()
			return true
		}
		return false
	}
	r := startRegistry(t, consulOptions, h)
	r.meanwhile(t, func() {
		r.tellsAllSoon(t, // also while the others wait: one large answer at a time
			telling{sent: &bombed, what: "more than 60000 entries"},
			telling{sent: &nested, what: "its answer cannot be read: unexpected EOF"})
	})
	r.holds(t)
}

// If a Consul sends an answer byte by byte, a problem says so within 15 s, not soon: an honest answer may take 10 s on a slow line, and
// until then nothing tells the two apart.
func TestConsulThatDrips(t *testing.T) {
	h := &hostileConsul{services: 1, entries: func(int) string { return "[]" }}
	h.hostile = func(w http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path != "/v1/catalog/services" {
			return false
		}
		drip(w, q, "{")
		return true
	}
	r := startRegistry(t, consulOptions, h)
	r.meanwhile(t, func() { r.tells(t, 15*time.Second, "the answer comes too slowly") })
	r.holds(t)
}

// A Consul that has other services in each answer, at once, takes neither memory nor other sources' time; its last services are in force.
func TestConsulThatFlaps(t *testing.T) {
	var index, lists atomic.Int64
	h := &hostileConsul{}
	h.hostile = func(w http.ResponseWriter, q *http.Request) bool {
		switch {
		case q.URL.Path == "/v1/catalog/services":
			n := lists.Add(1)
			w.Header().Set("X-Consul-Index", fmt.Sprint(index.Add(1)))
			all := map[string][]string{}
			for i := range 3000 {
				all[fmt.Sprintf("s-%d", int(n%50)*3000+i)] = []string{}
			}
			_ = json.NewEncoder(w).Encode(all)
		case strings.HasPrefix(q.URL.Path, "/v1/health/service/s-"):
			w.Header().Set("X-Consul-Index", fmt.Sprint(index.Add(1)))
			i, _ := strconv.Atoi(strings.TrimPrefix(path.Base(q.URL.Path), "s-"))
			_, _ = io.WriteString(w, "["+consulEntry(i%60000, 0, "")+"]")
		default:
			return false
		}
		return true
	}
	r := startRegistry(t, consulOptions, h)
	r.meanwhile(t, func() { atLeast(t, &lists, 10) })
	r.holds(t)
}

// If a Consul echoes the program's credentials in its answers, the program does not show them to others.
func TestConsulThatEchoes(t *testing.T) {
	var echoed sent
	h := &hostileConsul{services: 2, entries: func(int) string { return "[]" }}
	h.hostile = func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasPrefix(q.URL.Path, "/v1/health/service/s-") && q.URL.Path != "/v1/config/service-defaults" {
			return false
		}
		defer echoed.now()
		status := http.StatusInternalServerError
		if strings.HasSuffix(q.URL.Path, "s-1") {
			status = http.StatusBadRequest
		}
		http.Error(w, fmt.Sprint("who shows ", q.Header), status)
		return true
	}
	r := startRegistry(t, consulOptions, h)
	r.tellsSoon(t, &echoed, "who shows")
	r.nowhere(t, registryToken)
	r.nowhere(t, registryToken[5:30])
	r.holds(t)
}
