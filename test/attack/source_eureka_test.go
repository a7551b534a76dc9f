package attack

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hostileEureka answers as a Eureka server does that has what apps writes.
type hostileEureka struct {
	apps    func(w io.Writer)
	hostile func(w http.ResponseWriter, q *http.Request) (done bool)
	sent    sent
}

func (h *hostileEureka) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if h.hostile != nil && h.hostile(w, q) {
		return
	}
	if q.URL.Path == "/eureka/apps/delta" {
		http.NotFound(w, q)
		return
	}
	_, _ = io.WriteString(w, `{"applications":{"apps__hashcode":"","application":[`)
	h.apps(w)
	_, _ = io.WriteString(w, "]}}")
	h.sent.now()
}

// eurekaApp writes an application with instances; the first one listens on the given port, each other one on the next port.
func eurekaApp(w io.Writer, app, instances, port int, more func(n int) string) {
	if app > 0 {
		_, _ = io.WriteString(w, ",")
	}
	fmt.Fprintf(w, `{"name":"APP-%d","instance":[`, app)
	for n := range instances {
		if n > 0 {
			_, _ = io.WriteString(w, ",")
		}
		fmt.Fprintf(w, `{"instanceId":"i-%d","hostName":"h","app":"APP-%d","ipAddr":"10.%d.%d.1","status":"UP","port":{"$":%d,"@enabled":"true"}%s}`,
			n, app, app/250, app%250, port+n, more(n))
	}
	_, _ = io.WriteString(w, "]}")
}

func nothingMore(int) string { return "" }

const eurekaOptions = "eureka: {urls: ['%s/eureka'], refresh: 1s"

// Applications of a Eureka that have more ports together than are kept have the last ones left out.
func TestEurekaOfManyPorts(t *testing.T) {
	h := &hostileEureka{apps: func(w io.Writer) {
		for i := range 700 {
			eurekaApp(w, i, 90, 20000, nothingMore)
		}
	}}
	r := startRegistry(t, eurekaOptions, h)
	r.meanwhile(t, func() { r.tellsSoon(t, &h.sent, "listen on 90 ports") })
	r.holds(t)
}

// Metadata of a Eureka's instances that is more bytes than are kept is left out with them.
func TestEurekaOfManyBytes(t *testing.T) {
	long := strings.Repeat("x", 500)
	h := &hostileEureka{apps: func(w io.Writer) {
		for i := range 100 {
			eurekaApp(w, i, 45, 80, func(n int) string {
				return `,"metadata":{` + items(99, ",", fmt.Sprintf(`"label-%%d-%d-%d":"%s"`, i, n, long)) + "}"
			})
		}
	}}
	r := startRegistry(t, eurekaOptions, h)
	r.meanwhile(t, func() { r.tellsSoon(t, &h.sent, "of at most 100663296 bytes") })
	r.holds(t)
}

// If one instance of a Eureka is too large, it is left out, and a problem says so.
func TestEurekaOfOneLargeInstance(t *testing.T) {
	h := &hostileEureka{apps: func(w io.Writer) {
		eurekaApp(w, 0, 1, 80, func(int) string { return `,"metadata":{"x":"` + strings.Repeat("x", 2<<20) + `"}` })
		eurekaApp(w, 1, 1, 80, nothingMore)
	}}
	r := startRegistry(t, eurekaOptions, h)
	r.tellsSoon(t, &h.sent, "1 things of the source are left out: each is too large")
	r.holds(t)
}

// Answers of a Eureka that are bombs once they are decoded, or do not end, are read in bounds.
func TestEurekaOfLargeAnswers(t *testing.T) {
	var n atomic.Int64
	var bombed sent
	h := &hostileEureka{hostile: func(w http.ResponseWriter, _ *http.Request) bool {
		defer bombed.now()
		if n.Add(1)%2 == 0 {
			zipped(w, `{"applications":{"application":[{"name":"A","instance":[`, "{},", 400)
			return true
		}
		_, _ = io.WriteString(w, `{"applications":{"application":[{"name":"A","instance":[{}`)
		for part := strings.Repeat(",{}", 1<<20/3); ; {
			if _, err := io.WriteString(w, part); err != nil {
				return true
			}
		}
	}}
	r := startRegistry(t, eurekaOptions, h)
	r.meanwhile(t, func() {
		r.tellsSoon(t, &bombed, "more than 2000000 instances")
		atLeast(t, &n, 3)
	})
	r.holds(t)
}

// If a Eureka sends its answer byte by byte, a problem says so within 15 s, not soon: an honest answer may take 10 s on a slow line, and
// until then nothing tells the two apart.
func TestEurekaThatDrips(t *testing.T) {
	h := &hostileEureka{hostile: func(w http.ResponseWriter, q *http.Request) bool {
		drip(w, q, "{")
		return true
	}}
	r := startRegistry(t, eurekaOptions, h)
	r.meanwhile(t, func() { r.tells(t, 15*time.Second, "the answer comes too slowly") })
	r.holds(t)
}

// A Eureka that has other applications in each answer takes little more memory than one with stable applications, and none of the other
// sources' time.
func TestEurekaThatFlaps(t *testing.T) {
	var n atomic.Int64
	var flaps atomic.Bool
	h := &hostileEureka{apps: func(w io.Writer) {
		from := 0
		if flaps.Load() {
			from = int(n.Add(1)%50) * 5000
		}
		eurekaApp(w, 0, 1, 80, nothingMore)
		for i := range 5000 {
			eurekaApp(w, from+i+1, 1, 80, nothingMore)
		}
	}}
	r := startRegistry(t, "eureka: {urls: ['%s/eureka'], refresh: 100ms, keepMissing: 0s", h)
	r.tells(t, time.Minute, `"rows": 10002`) // all is read: nothing hostile yet
	r.normal = r.most(t)
	flaps.Store(true)
	r.meanwhile(t, func() { atLeast(t, &n, 20) })
	r.holds(t)
}

// If a Eureka echoes the program's credentials in its answers, the program does not show them to others.
func TestEurekaThatEchoes(t *testing.T) {
	var echoed sent
	h := &hostileEureka{hostile: func(w http.ResponseWriter, q *http.Request) bool {
		defer echoed.now()
		http.Error(w, fmt.Sprint("who shows ", q.Header), http.StatusInternalServerError)
		return true
	}}
	r := startRegistry(t, eurekaOptions, h)
	r.tellsSoon(t, &echoed, "who shows")
	r.nowhere(t, registryToken)
	r.nowhere(t, registryToken[5:30])
	r.holds(t)
}
