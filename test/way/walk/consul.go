package walk

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// consul is a stand-in for Consul's servers: it has one service, and answers a query for a newer state once there is one.
type consul struct {
	server *httptest.Server

	mu        sync.Mutex
	index     int
	instances string        // of the service, as JSON
	changed   chan struct{} // closed with the next index
}

func newConsul() *consul {
	c := &consul{index: 10, changed: make(chan struct{})}
	c.set("10.0.2.1")
	c.server = httptest.NewServer(c)
	return c
}

func (c *consul) close() {
	c.server.CloseClientConnections()
	c.server.Close()
}

// set makes the instances of the service.
func (c *consul) set(addresses ...string) {
	var all []string
	for i, a := range addresses {
		const instance = `{"Node":{"Node":"n","Datacenter":"dc1"},"Service":{"ID":"ratings-%d","Service":"ratings","Address":%q,"Port":80}}`
		all = append(all, fmt.Sprintf(instance, i, a))
	}
	now := "[" + strings.Join(all, ",") + "]"
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	c.instances = now
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *consul) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	after, _ := strconv.Atoi(q.Get("index"))
	wait, _ := time.ParseDuration(q.Get("wait"))
	late := time.NewTimer(wait)
	defer late.Stop()
	for over := false; ; {
		index, text, changed := c.answer(r)
		if index > after || over {
			w.Header().Set("X-Consul-Index", strconv.Itoa(index))
			_, _ = io.WriteString(w, text) // the client may be gone
			return
		}
		select {
		case <-changed:
		case <-late.C:
			over = true
		case <-r.Context().Done():
			return
		}
	}
}

// answer returns the current state, its index, and a channel that is closed with the next one.
func (c *consul) answer(r *http.Request) (index int, text string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.URL.Path == "/v1/status/leader":
		return 1, `"127.0.0.1:8300"`, c.changed
	case r.URL.Path == "/v1/catalog/services":
		return c.index, `{"ratings":[]}`, c.changed
	case r.URL.Path == "/v1/health/service/ratings" && r.URL.Query().Get("filter") == "":
		return c.index, c.instances, c.changed
	}
	return c.index, "[]", c.changed
}
