package eurekaserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"testing"
)

// Instance is what registers.
type Instance struct {
	App, ID    string
	Address    string
	Port       int
	SecurePort int    // 0: it has none
	Status     string // empty: UP
	VIP        string // empty: App
	SecureVIP  string
	Metadata   map[string]string
	Zone       string // in Amazon's words; empty: it is not there
	Lease      int    // seconds; 0: 90
}

// dataCenter is where an instance runs. Eureka wants its fields in this order.
type dataCenter struct {
	Class    string            `json:"@class"`
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// MarshalJSON writes what Eureka is sent.
func (i Instance) MarshalJSON() ([]byte, error) {
	center := dataCenter{Class: "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", Name: "MyOwn"}
	if i.Zone != "" {
		center = dataCenter{"com.netflix.appinfo.AmazonInfo", "Amazon", map[string]string{"availability-zone": i.Zone, "instance-id": i.ID}}
	}
	port := func(number int) map[string]any {
		return map[string]any{"$": number, "@enabled": fmt.Sprint(number > 0)}
	}
	metadata := maps.Clone(i.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	return json.Marshal(map[string]any{"instance": map[string]any{
		"instanceId": i.ID, "app": i.App, "hostName": cmp.Or(i.Address, "none"), "ipAddr": i.Address, "status": cmp.Or(i.Status, "UP"),
		"port": port(i.Port), "securePort": port(i.SecurePort), "vipAddress": cmp.Or(i.VIP, i.App), "secureVipAddress": i.SecureVIP,
		"metadata": metadata, "dataCenterInfo": center,
		"leaseInfo": map[string]int{"renewalIntervalInSecs": 30, "durationInSecs": cmp.Or(i.Lease, 90)},
	}})
}

// Register registers an instance, again if it is registered.
func (s *Server) Register(t testing.TB, i Instance) {
	t.Helper()
	if err := s.Try(t, i); err != nil {
		t.Fatalf("register %s: %v", i.ID, err)
	}
}

// Try is Register for what the server may refuse.
func (s *Server) Try(t testing.TB, i Instance) error {
	t.Helper()
	body, err := json.Marshal(i)
	if err == nil {
		_, err = s.call(t.Context(), http.MethodPost, "/apps/"+url.PathEscape(i.App), string(body))
	}
	return err
}

func (s *Server) ask(t testing.TB, method, path string) {
	t.Helper()
	if _, err := s.call(t.Context(), method, path, ""); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// Renew renews a lease. It fails where the server does not know the instance.
func (s *Server) Renew(t testing.TB, app, id string) error {
	t.Helper()
	_, err := s.call(t.Context(), http.MethodPut, "/apps/"+app+"/"+id, "")
	return err
}

// Cancel takes an instance back.
func (s *Server) Cancel(t testing.TB, app, id string) {
	t.Helper()
	s.ask(t, http.MethodDelete, "/apps/"+app+"/"+id)
}

// Override sets an instance's status from outside.
func (s *Server) Override(t testing.TB, app, id, status string) {
	t.Helper()
	s.ask(t, http.MethodPut, "/apps/"+app+"/"+id+"/status?value="+status)
}

// Restore removes the status that was set from outside; from then on the instance has the given status.
func (s *Server) Restore(t testing.TB, app, id, status string) {
	t.Helper()
	s.ask(t, http.MethodDelete, "/apps/"+app+"/"+id+"/status?value="+status)
}

// Metadata sets one word of an instance's metadata.
func (s *Server) Metadata(t testing.TB, app, id, key, value string) {
	t.Helper()
	s.ask(t, http.MethodPut, "/apps/"+app+"/"+id+"/metadata?"+url.Values{key: {value}}.Encode())
}

// Apps returns the server's answer to a client, unchanged.
func (s *Server) Apps(t testing.TB, path string) string {
	t.Helper()
	body, err := s.call(t.Context(), http.MethodGet, path, "")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func do(client *http.Client, q *http.Request) (string, error) {
	answer, err := client.Do(q)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNoContent {
		err = &Refused{answer.StatusCode, string(body)}
	}
	return string(body), err
}
