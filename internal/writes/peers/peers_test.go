package peers

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/mesh"
	"fairway/internal/writes/work"
)

func report(t *testing.T) *work.Report {
	missing := func(string, []mesh.Problem) { t.Error("a right is missing") }
	return work.NewReport(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), missing)
}

// If there are more control planes than are read, the rest are left out; the text of one is withdrawn when its Lease is deleted.
func TestHeardControlPlanes(t *testing.T) {
	texts := map[string]string{}
	take := func(by, text string) error {
		if texts[by] = text; text == "nonsense" {
			texts[by] = ""
		}
		if texts[by] == "" {
			delete(texts, by)
		}
		if text == "nonsense" {
			return errors.New("it cannot be read")
		}
		return nil
	}
	l := &listening{own: "istio-test-own", known: map[string]*peerState{}, o: Options{
		Task: "test", Prefix: "istio-test-", Report: report(t), OnText: take,
	}}
	now := map[string]lease{"istio-test-own": {"1", "a"}, "other": {"1", "a"}, "istio-test-": {"1", "nonsense"}}
	for n := range mostLeases + 20 {
		now[fmt.Sprintf("istio-test-%03d", n)] = lease{"1", "a"}
	}
	at := time.Now()
	l.look(t.Context(), now, at)
	if _, own := texts["istio-test-own"]; own || texts["istio-test-000"] != "a" || len(texts) != mostLeases-1 {
		t.Errorf("the texts are %v", texts)
	}
	delete(now, "istio-test-000")
	now["istio-test-001"] = lease{"2", ""}
	l.look(t.Context(), now, at.Add(aliveFor-time.Second))
	if texts["istio-test-000"] != "" || texts["istio-test-001"] != "" || texts["istio-test-002"] != "a" {
		t.Errorf("the texts are %v", texts)
	}
}
