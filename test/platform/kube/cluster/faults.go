package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"fairway/test/rig"
)

// Compact makes the store forget all old versions of its objects, as it does by itself every few minutes.
func (c *Cluster) Compact(t testing.TB) {
	t.Helper()
	var now struct {
		Header struct{ Revision string }
	}
	if err := c.etcdSays(t.Context(), "/v3/kv/range", `{"key":"Lw=="}`, &now); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"revision":%q,"physical":true}`, now.Header.Revision)
	err := c.etcdSays(t.Context(), "/v3/kv/compaction", body, new(struct{}))
	// nothing was written since the last time, or the API server has done so itself meanwhile
	if err != nil && !strings.Contains(err.Error(), "required revision has been compacted") {
		t.Fatal(err)
	}
}

// etcdSays asks etcd.
func (c *Cluster) etcdSays(ctx context.Context, path, body string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcd+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := c.plain.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd: %s: %s", response.Status, text)
	}
	if err != nil {
		return err
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(answer)
}

// Try applies one object, with its status if that is given, and returns the API server's refusal, if any.
func (c *Cluster) Try(ctx context.Context, text string) (Object, error) {
	o, err := parse(text)
	if err != nil {
		return nil, err
	}
	stored, err := c.store(ctx, o, "")
	if err == nil && o["status"] != nil {
		stored, err = c.store(ctx, o, "/status")
	}
	return stored, err
}

// Remove takes one object away, at once. A namespace is gone, with all that is in it, when Remove returns.
func (c *Cluster) Remove(ctx context.Context, text string) error {
	o, err := parse(text)
	if err != nil {
		return err
	}
	path := pathOf(o)
	if _, err = c.Do(ctx, http.MethodDelete, path+"?gracePeriodSeconds=0", "", nil); err != nil || o["kind"] != "Namespace" {
		return err
	}
	for {
		// No kubelet ends pods, and the namespace would wait for one.
		if err := c.Clear(ctx, "v1", "Pod", o.Meta("name")); err != nil {
			return err
		}
		var answer *Refused
		if _, err := c.Do(ctx, http.MethodGet, path, "", nil); errors.As(err, &answer) && answer.Status == http.StatusNotFound {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is still there: %w", path, ctx.Err())
		}
	}
}

// Clear deletes all objects of a kind: in some namespaces, or all objects if the kind has no namespaces.
func (c *Cluster) Clear(ctx context.Context, version, kind string, namespaces ...string) error {
	if clusterWide(kind) {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		path := pathOf(Object{"apiVersion": version, "kind": kind, "metadata": map[string]any{"namespace": namespace}})
		if _, err := c.Do(ctx, http.MethodDelete, strings.TrimSuffix(path, "/")+"?gracePeriodSeconds=0", "", nil); err != nil {
			return err
		}
	}
	return nil
}

// Undefine takes CRDs away with all objects of theirs, and waits until they are gone.
func (c *Cluster) Undefine(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + name
		if _, err := c.Do(t.Context(), http.MethodDelete, path, "", nil); err != nil {
			t.Fatal(err)
		}
		rig.Eventually(t, func() error {
			_, err := c.Do(t.Context(), http.MethodGet, path, "", nil)
			if err != nil && strings.Contains(err.Error(), "404") {
				return nil
			}
			return fmt.Errorf("%s is still there: %w", name, err)
		})
	}
}

// DefineLoosely stores CRDs without the restrictions of their schemas, as older releases of Istio had them: objects
// that an API server would have refused reach the readers.
func (c *Cluster) DefineLoosely(t testing.TB, names ...string) {
	t.Helper()
	all := Definitions(t)
	for _, name := range names {
		spec, _ := all[name]["spec"].(map[string]any)
		versions, _ := spec["versions"].([]any)
		for _, v := range versions {
			v.(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}}
		}
		c.define(t, all[name])
	}
}

// Event is one of a watch, when it arrived.
type Event struct {
	Type   string
	Object Object
	At     time.Time
}

// Follow hands over each event of a watch, on a goroutine of its own, until the test ends or the watch breaks.
func (c *Cluster) Follow(t testing.TB, path string, hear func(Event)) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(path)+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for events := json.NewDecoder(response.Body); ; {
			var e Event
			if events.Decode(&e) != nil {
				return
			}
			e.At = time.Now()
			hear(e)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		response.Body.Close()
	})
}

// Between puts a server between a client and the API server. fault sees each request first, and answers it itself where
// it returns true. The client that is returned may do everything.
func (c *Cluster) Between(t testing.TB, fault func(http.ResponseWriter, *http.Request) bool) *rest.Config {
	t.Helper()
	to, err := url.Parse(c.url(""))
	if err != nil {
		t.Fatal(err)
	}
	through := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     c.http.Transport,
		FlushInterval: -1, // events of watches are passed on at once
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fault(w, r) {
			through.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return &rest.Config{Host: s.URL, QPS: -1}
}
