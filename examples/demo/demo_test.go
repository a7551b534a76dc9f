package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPortsThatAreTakenAreReplaced(t *testing.T) {
	taken, err := net.Listen("tcp", at(local, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	got, held, err := freePort(port, []string{local, productpageIn})
	if err != nil || got == port || len(held) != 2 {
		t.Fatalf("freePort(%d) = %d, %d listeners, %v", port, got, len(held), err)
	}
	for _, l := range held {
		l.Close()
	}
	rules := []byte("port: 9080\nbind: 127.0.0.1:9081, 9082}\nnumber: 8080 19080 90801 9999")
	want := "port: 1\nbind: 127.0.0.1:3, 4}\nnumber: 2 19080 90801 9999"
	if got := string(ports{service: 1, gateway: 2, productpage: 3, reviewsV2: 4}.rewrite(rules)); got != want {
		t.Errorf("rewrite = %q, want %q", got, want)
	}
}

// TestEditsFitTheRules runs every edit of the show on a copy of the real rules.
func TestEditsFitTheRules(t *testing.T) {
	w := &world{dir: t.TempDir()}
	p := ports{service: 9080, gateway: 8080, productpage: 9081, reviewsV2: 9082}
	if err := p.copyRules(filepath.Join("..", "bookinfo", "rules"), w.rules()); err != nil {
		t.Fatal(err)
	}
	original, _ := os.ReadFile(filepath.Join(w.rules(), "reviews.yaml"))
	for _, step := range [][2]string{{"v2", "v1"}, {"v1", "v3"}, {"v3", "v2"}} {
		if _, err := w.editRule("reviews.yaml", "subset: "+step[0]+"}", "subset: "+step[1]+"}"); err != nil {
			t.Fatal(err)
		}
		now, _ := os.ReadFile(filepath.Join(w.rules(), "reviews.yaml"))
		_, jason, _ := strings.Cut(string(now), "name: jason")
		jason, _, _ = strings.Cut(jason, "name: canary")
		if !strings.Contains(jason, "subset: "+step[1]+"}") {
			t.Errorf("jason's route after the edit to %s: %s", step[1], jason)
		}
	}
	if now, _ := os.ReadFile(filepath.Join(w.rules(), "reviews.yaml")); string(now) != string(original) {
		t.Error("moving jason round in a circle changed something else")
	}
	if _, err := w.editRule("reviews.yaml", "subset: v9}", ""); err == nil {
		t.Error("an edit of what is not there is taken")
	}
	if left, _ := filepath.Glob(filepath.Join(w.rules(), "*.new")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestLikely(t *testing.T) {
	if low, high := likely(500, 0.1); low != 16 || high != 84 {
		t.Errorf("likely(500, 0.1) = %d, %d", low, high)
	}
}

func TestSum(t *testing.T) {
	text := "# HELP a_total x\na_total{type=\"lds\"} 3\na_total{type=\"rds\"} 4.5\na_total_other 9\nb 1\na_total 1e+02\n"
	if got := sum([]byte(text), "a_total"); got != 107.5 {
		t.Errorf("sum = %v", got)
	}
}
