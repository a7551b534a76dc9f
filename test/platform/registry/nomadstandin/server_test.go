package nomadstandin_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"go.uber.org/goleak"

	"fairway/test/platform/registry/nomadstandin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, s *nomadstandin.Server, token string) *api.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := api.NewClient(&api.Config{Address: s.URL(), SecretID: token, HttpClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func one(name, id string) *api.ServiceRegistration {
	return &api.ServiceRegistration{ID: id, ServiceName: name, Address: "10.0.0.1", Port: 80, Tags: []string{"a=b"}, JobID: "job"}
}

// TestRealClient: Nomad's own client reads the registered services, waits for changes, follows events from an index, and deregisters.
func TestRealClient(t *testing.T) {
	s := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: 20 * time.Millisecond, Buffer: 2})
	c := client(t, s, "")
	s.Register(one("web", "1"))
	all, meta, err := c.Services().List(&api.QueryOptions{Namespace: "*"})
	if err != nil || len(all) != 1 || all[0].Namespace != "default" || all[0].Services[0].ServiceName != "web" || meta.LastIndex != 11 {
		t.Fatalf("%+v %+v %v", all, meta, err)
	}
	go s.Register(one("web", "2"))
	list, meta, err := c.Services().Get("web", &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Minute})
	if err != nil || len(list) != 2 || meta.LastIndex != 12 {
		t.Fatalf("%+v %+v %v", list, meta, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	topics := map[api.Topic][]string{api.TopicService: {"*"}}
	events, err := c.EventStream().Stream(ctx, topics, 12, &api.QueryOptions{Namespace: "*"})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Err != nil || e.Index != 12 || e.Events[0].Type != "ServiceRegistration" {
		t.Errorf("%+v", e)
	}
	if _, err := c.Services().Delete("web", "1", nil); err != nil {
		t.Fatal(err)
	}
	e := <-events
	if r, err := e.Events[0].Service(); err != nil || e.Index != 13 || e.Events[0].Type != "ServiceDeregistration" || r.ID != "1" ||
		r.Tags[0] != "a=b" {
		t.Errorf("%+v %+v %v", e, r, err)
	}
	stop()
	for range events {
	}
	// the buffer holds two events: one that is asked for from the first on begins later
	later, stop := context.WithCancel(t.Context())
	s.Register(one("web", "3"))
	if events, err = c.EventStream().Stream(later, topics, 1, &api.QueryOptions{Namespace: "*"}); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Index != 13 {
		t.Errorf("%+v", e)
	}
	stop()
	for range events {
	}
}

// TestTokens: a token reads only the namespaces that it may read.
func TestTokens(t *testing.T) {
	s := nomadstandin.Start(t, nomadstandin.Options{Tokens: map[string][]string{"shop": {"shop"}, "all": {nomadstandin.Everywhere}}})
	for _, n := range []string{"shop", "bank"} {
		r := one("web", "1")
		r.Namespace = n
		s.Register(r)
	}
	for token, want := range map[string]int{"shop": 1, "all": 2} {
		all, _, err := client(t, s, token).Services().List(&api.QueryOptions{Namespace: "*"})
		if err != nil || len(all) != want {
			t.Errorf("%s: %d namespaces, %v", token, len(all), err)
		}
	}
	var refused api.UnexpectedResponseError
	if _, _, err := client(t, s, "none").Services().List(nil); !errors.As(err, &refused) || refused.StatusCode() != 403 {
		t.Errorf("a token that is none: %v", err)
	}
	_, err := client(t, s, "shop").EventStream().Stream(t.Context(), nil, 0, &api.QueryOptions{Namespace: "*"})
	if !errors.As(err, &refused) || refused.StatusCode() != 403 {
		t.Errorf("a stream of all namespaces: %v", err)
	}
}
