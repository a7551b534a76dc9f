package crd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairway/internal/config/document"
	"fairway/internal/config/report"
)

// peers is a PeerAuthentication of many ports, made by their numbers.
func peers(n int, port func(i int) string) map[string]any {
	ports := map[string]any{}
	for i := range n {
		ports[port(i)] = map[string]any{"mode": "STRICT"}
	}
	return map[string]any{
		"apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication", "metadata": map[string]any{"name": "x"},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "portLevelMtls": ports},
	}
}

// judged validates a tree, and fails the test if that takes long: the tracker of costs takes 20 seconds for 60,000 ports.
func judged(t *testing.T, s *Schema, tree map[string]any) (bool, report.Report) {
	t.Helper()
	r := report.New(document.Document{})
	began := time.Now()
	_, ok := s.Validate(tree, &r)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("judged in %v", took)
	}
	return ok, r
}

// TestRulesOfManyKeys: the cost of rules is linear in the size of an object, whether the object is right, or wrong in one place or in all.
// An object that is too large for its rules is refused with the rule, always with the same message.
func TestRulesOfManyKeys(t *testing.T) {
	s, err := Load("PeerAuthentication")
	if err != nil {
		t.Fatal(err)
	}
	number := func(i int) string { return fmt.Sprint(1 + i) }
	if ok, r := judged(t, s, peers(60_000, number)); !ok {
		t.Errorf("60,000 ports: %+v", r.Listed())
	}
	for name, tree := range map[string]map[string]any{
		"a port that is none": peers(60_000, func(i int) string { return fmt.Sprint(65_536 - i*min(i, 1)) }),
		"no number":           peers(60_000, func(i int) string { return strings.Repeat("x", 1-min(i, 1)) + fmt.Sprint(1+i) }),
		"none is a port":      peers(60_000, func(i int) string { return fmt.Sprint(100_000 + i) }),
	} {
		ok, r := judged(t, s, tree)
		if ok || len(r.Listed()) == 0 || !strings.Contains(fmt.Sprint(r.Listed()), "portLevelMtls") {
			t.Errorf("%s: %t %+v", name, ok, r.Listed())
		}
	}
}

// TestStepsOfRules: an object whose rules take too many steps is refused with the rule that takes most, always with the same message. No
// rule is evaluated once the budget is spent.
func TestStepsOfRules(t *testing.T) {
	s, err := Load("PeerAuthentication")
	if err != nil {
		t.Fatal(err)
	}
	tree := peers(20_000, func(i int) string { return fmt.Sprint(100_000 + i) })
	for range 3 {
		w := &ruleWalk{budget: 50_000}
		w.walk(s.quick, tree, &report.Path{})
		at, message := w.overBudget()
		const want = "the rule (port must be between 1-65535) takes 80002 steps"
		if w.budget >= 0 || w.failed > 0 || at != "spec.portLevelMtls" || !strings.HasPrefix(message, want) {
			t.Errorf("%d left, %d failed, %s: %s", w.budget, w.failed, at, message)
		}
	}
}

// TestLargeValuesAreExplainedAlike: a value that is too large for the library gets the same message that the library has for a small one.
func TestLargeValuesAreExplainedAlike(t *testing.T) {
	s, err := Load("PeerAuthentication")
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"70000", "0", "x"} {
		port := func(i int) string {
			if i == 0 {
				return wrong
			}
			return fmt.Sprint(i)
		}
		_, small := judged(t, s, peers(3, port))
		_, large := judged(t, s, peers(20_000, port))
		a, b := small.Listed(), large.Listed()
		if len(a) == 0 || len(a) != len(b) {
			t.Fatalf("%s: %d problems of a few, %d of many", wrong, len(a), len(b))
		}
		for i := range a {
			if a[i].Code != b[i].Code || wrong != "x" && a[i].Message != b[i].Message {
				t.Errorf("%s:\n%+v\n%+v", wrong, a[i], b[i])
			}
		}
	}
}
