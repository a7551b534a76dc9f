package xds

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// churn changes many clusters of a real Envoy under way, in random order.
type churn struct {
	*envoy
	random   *rand.Rand
	clusters map[string]string // the port of each cluster's only host
	static   map[string]bool   // those that do not take it from EDS
}

const churnClusters = 400

// TestRealEnvoyChurn holds law 1 against a real Envoy: whatever changed while it was busy with something else, in the
// end each cluster has its hosts. That none was waited for is seen by the time: Envoy's own timeout is 15 s.
func TestRealEnvoyChurn(t *testing.T) {
	for _, api := range []string{"GRPC", "DELTA_GRPC"} {
		for seed := range uint64(churnRounds(t)) {
			t.Run(fmt.Sprintf("%s,%d", api, seed), func(t *testing.T) {
				c := &churn{
					envoy:    startEnvoy(t, api),
					random:   rand.New(rand.NewPCG(seed, 1)),
					clusters: map[string]string{},
					static:   map[string]bool{},
				}
				port := freePort(t)
				c.turn++
				c.lib.Publish(c.turn,
					append(c.edits(churnClusters/2), c.listener("l", port, "80"), c.route("80"), c.host("80", "a.test", "c0")))
				for range 60 {
					edits := c.edits(1 + c.random.IntN(1<<c.random.IntN(9)))
					if len(edits) == 0 {
						continue
					}
					c.turn++
					c.lib.Publish(c.turn, edits)
					c.pause(c.random.IntN(12))
				}
				c.wait()
				c.check()
			})
		}
	}
}

// churnRounds is how many histories are played: CHURN, or a few.
func churnRounds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("CHURN"))
	if err != nil && os.Getenv("CHURN") != "" {
		t.Fatal(err)
	}
	return max(n, 2)
}

// edits changes some random clusters, adds some and removes some; some change in nothing but their load assignment.
func (c *churn) edits(n int) (out []library.Change) {
	for range n {
		name := "c" + strconv.Itoa(c.random.IntN(churnClusters))
		port := strconv.Itoa(1024 + c.random.IntN(10_000))
		if name == "c0" {
			continue // it is routed to
		}
		timeout := strconv.Itoa(1+c.random.IntN(9)) + "s"
		_, there := c.clusters[name]
		switch kind := c.random.IntN(10); {
		case there && kind < 3:
			delete(c.clusters, name)
			out = append(out, gone("all", xdstype.ClusterURL, name), gone("all", xdstype.EndpointURL, name))
		case there && !c.static[name] && kind < 5:
			c.clusters[name] = port
			out = append(out, c.hosts(name, port))
		case kind < 6: // not by EDS
			c.clusters[name], c.static[name] = port, true
			out = append(out, c.fixed(name, port, timeout), gone("all", xdstype.EndpointURL, name))
		case there && kind < 8: // the same host
			port = c.clusters[name]
			delete(c.static, name)
			out = append(out, c.cluster(name, timeout), c.hosts(name, port))
		default:
			c.clusters[name] = port
			delete(c.static, name)
			out = append(out, c.cluster(name, timeout), c.hosts(name, port))
		}
	}
	return out
}

func (c *churn) hosts(name, port string) library.Change {
	return message(c.t, xdstype.EndpointURL, name, assignment(name, port), &endpointv3.ClusterLoadAssignment{}, library.ResourceOptions{})
}

func (c *churn) fixed(name, port, timeout string) library.Change {
	return message(c.t, xdstype.ClusterURL, name, fmt.Sprintf(`{"name":%q,"type":"STATIC","connectTimeout":%q,"loadAssignment":%s}`,
		name, timeout, assignment(name, port)), &clusterv3.Cluster{}, library.ResourceOptions{})
}

func assignment(name, port string) string {
	return fmt.Sprintf(`{"clusterName":%q,"endpoints":[{"lbEndpoints":[{"endpoint":{
		"address":{"socketAddress":{"address":"127.0.0.1","portValue":%s}}}}]}]}`, name, port)
}

// pause lets the conversation go on for some steps, or until it has come to rest.
func (c *churn) pause(steps int) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	err := c.srv.await(ctx, func() bool {
		steps--
		streams := c.srv.all()
		return steps < 0 || len(streams) > 0 && streams[0].reached(c.turn)
	})
	if err != nil {
		c.t.Fatalf("turn %d: %v\n%+v", c.turn, err, c.srv.Status())
	}
}

// check compares Envoy's configuration in force with the one that was published last.
func (c *churn) check() {
	resp, err := http.Get(c.admin() + "/clusters?format=json")
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var page struct {
		Statuses []struct {
			Name  string `json:"name"`
			Hosts []struct {
				Address struct {
					Socket struct {
						Port int `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		c.t.Fatal(err)
	}
	have := map[string]string{}
	for _, s := range page.Statuses {
		have[s.Name] = ""
		for _, h := range s.Hosts {
			have[s.Name] += strconv.Itoa(h.Address.Socket.Port)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.clusters)) {
		if port, ok := have[name]; !ok || port != c.clusters[name] {
			c.t.Errorf("cluster %s: there=%v, host %q, want %s", name, ok, port, c.clusters[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ok := c.clusters[name]; !ok && name != "xds" {
			c.t.Errorf("cluster %s is still there", name)
		}
	}
}
