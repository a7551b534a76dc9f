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
)

// hostileNomad answers as a Nomad does that has so many services.
type hostileNomad struct {
	services int
	entries  func(service int) string
	hostile  func(w http.ResponseWriter, q *http.Request) (done bool)

	answered sync.Map
	count    atomic.Int64
	sent     sent
}

func (h *hostileNomad) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("X-Nomad-Index", "7")
	w.Header().Set("Content-Type", "application/json")
	if h.hostile != nil && h.hostile(w, q) {
		return
	}
	switch {
	case q.URL.Path == "/v1/services":
		type name struct{ ServiceName string }
		var all []name
		for i := range h.services {
			all = append(all, name{fmt.Sprintf("s-%d", i)})
		}
		_ = json.NewEncoder(w).Encode([]any{map[string]any{"Namespace": "default", "Services": all}})
	case q.URL.Path == "/v1/event/stream":
		_, _ = io.WriteString(w, `{"Index":7,"Events":[]}`+"\n")
		w.(http.Flusher).Flush()
		<-q.Context().Done()
	case strings.HasPrefix(q.URL.Path, "/v1/service/s-"):
		i, err := strconv.Atoi(strings.TrimPrefix(path.Base(q.URL.Path), "s-"))
		if err != nil {
			http.Error(w, "no number", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, h.entries(i))
		if _, was := h.answered.LoadOrStore(i, true); !was && h.count.Add(1) == int64(h.services) {
			h.sent.now()
		}
	default:
		http.NotFound(w, q)
	}
}

func nomadEntry(service, n, port int, more string) string {
	const text = `{"ID":"r-%d-%d","ServiceName":"s-%[1]d","Namespace":"default","NodeID":"n","Datacenter":"dc1","JobID":"j","AllocID":"a",` +
		`"Address":"10.%[3]d.%[4]d.1","Port":%[5]d,"ModifyIndex":5%[6]s}`
	return fmt.Sprintf(text, service, n, service/250, service%250, port, more)
}

const nomadOptions = "nomad: {urls: ['%s']"

// Services of a Nomad that have more ports together than are kept have the last ones left out.
func TestNomadOfManyPorts(t *testing.T) {
	h := &hostileNomad{services: 700, entries: func(i int) string {
		var all []string
		for n := range 90 {
			all = append(all, nomadEntry(i, n, 20000+n, ""))
		}
		return "[" + strings.Join(all, ",") + "]"
	}}
	r := startRegistry(t, nomadOptions, h)
	r.meanwhile(t, func() { r.tellsSoon(t, &h.sent, "listen on 90 ports") })
	r.holds(t)
}

// Tags of a Nomad's registrations that are more bytes than are kept are left out with them, and those of a MiB by themselves.
func TestNomadOfManyBytes(t *testing.T) {
	tags := `,"Tags":[` + items(95, ",", `"label-%d=`+strings.Repeat("x", 500)+`"`) + "]"
	large := `,"Tags":["` + strings.Repeat("x", 1<<20) + `"]`
	h := &hostileNomad{services: 160, entries: func(i int) string {
		if i == 0 {
			return "[" + nomadEntry(i, 0, 80, large) + "]"
		}
		var all []string
		for n := range 20 {
			all = append(all, nomadEntry(i, n, 80, strings.ReplaceAll(tags, "label-", fmt.Sprintf("label-%d-%d-", i, n))))
		}
		return "[" + strings.Join(all, ",") + "]"
	}}
	r := startRegistry(t, nomadOptions, h)
	r.meanwhile(t, func() { r.tellsSoon(t, &h.sent, "of at most 100663296 bytes") })
	r.holds(t)
}

// If one registration of a Nomad is too large, it is left out, and a problem says so.
func TestNomadOfOneLargeTag(t *testing.T) {
	h := &hostileNomad{services: 2, entries: func(i int) string {
		return "[" + nomadEntry(i, 0, 80, `,"Tags":["`+strings.Repeat("x", (1-i)<<20)+`"]`) + "]"
	}}
	r := startRegistry(t, nomadOptions, h)
	r.tellsSoon(t, &h.sent, "1 things of the source are left out: each is too large")
	r.holds(t)
}

// Answers of a Nomad that are bombs once they are decoded are read one at a time, and in bounds.
func TestNomadOfLargeAnswers(t *testing.T) {
	long := strings.Repeat("y", 250<<10)
	large := "[" + items(250, ",", strings.ReplaceAll(nomadEntry(1, 7, 80, `,"Tags":["`+long+`"]`), "-7\"", "-%d\"")) + "]"
	h := &hostileNomad{services: 18, entries: func(int) string { return large }}
	var asked atomic.Int64
	h.hostile = func(w http.ResponseWriter, q *http.Request) bool {
		if path.Base(q.URL.Path) != "s-16" {
			return false
		}
		if asked.Add(1) == 1 {
			zipped(w, "[{}", ",{}", 400)
		} else {
			_, _ = io.WriteString(w, "[]")
		}
		return true
	}
	r := startRegistry(t, nomadOptions, h)
	r.meanwhile(t, func() {
		r.tells(t, time.Minute, "more than 2000000 registrations") // once the large answers before it have been read, a GB
		atLeast(t, &h.count, 17)
	})
	r.holds(t)
}

// If a Nomad sends its list byte by byte, a problem says so within 15 s, not soon: an honest answer may take 10 s on a slow line, and until
// then nothing tells the two apart.
func TestNomadThatDrips(t *testing.T) {
	h := &hostileNomad{services: 1, entries: func(int) string { return "[]" }}
	h.hostile = func(w http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path != "/v1/services" {
			return false
		}
		drip(w, q, "[")
		return true
	}
	r := startRegistry(t, nomadOptions, h)
	r.meanwhile(t, func() { r.tells(t, 15*time.Second, "the answer comes too slowly") })
	r.holds(t)
}

// A Nomad with events that say without a pause that services come and go takes neither memory nor other sources' time.
func TestNomadThatFlaps(t *testing.T) {
	h := &hostileNomad{services: 1, entries: func(i int) string { return "[" + nomadEntry(i, 0, 80, "") + "]" }}
	var events atomic.Int64
	h.hostile = func(w http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path != "/v1/event/stream" {
			return false
		}
		_, _ = io.WriteString(w, `{"Index":7,"Events":[]}`+"\n")
		for n := 8; ; n++ {
			kind := [2]string{"ServiceRegistration", "ServiceDeregistration"}[n/5000%2]
			_, err := fmt.Fprintf(w, `{"Index":%d,"Events":[{"Topic":"Service","Type":%q,"Payload":{"Service":%s}}]}`+"\n", n, kind,
				nomadEntry(n%5000, 0, 80, ""))
			if events.Add(1); err != nil {
				return true
			}
		}
	}
	r := startRegistry(t, nomadOptions, h)
	r.meanwhile(t, func() { atLeast(t, &events, 100_000) })
	r.holds(t)
}

// If a Nomad echoes the program's credentials in its answers, the program does not show them to others.
func TestNomadThatEchoes(t *testing.T) {
	var echoed sent
	h := &hostileNomad{services: 2, entries: func(int) string { return "[]" }}
	h.hostile = func(w http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path == "/v1/services" {
			return false
		}
		defer echoed.now()
		http.Error(w, fmt.Sprint("who shows ", q.Header), http.StatusInternalServerError)
		return true
	}
	r := startRegistry(t, nomadOptions, h)
	r.tellsSoon(t, &echoed, "who shows")
	r.nowhere(t, registryToken)
	r.nowhere(t, registryToken[5:30])
	r.holds(t)
}
