package mixed

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairway/test/rig"
)

// told: `pilotctl services`, /debug/servicez and the metrics describe each instance and each registry correctly.
func (w *world) told(t *testing.T, standing map[registry][]instance) {
	all := w.ctl(t, "services")
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(host) + ` +shop +80/HTTP +(.*?) +(\d+/\d+)$`).FindStringSubmatch(all)
	if line == nil || line[2] != "8/8" {
		t.Errorf("pilotctl services has not 8 healthy instances of %s:\n%s", host, all)
	}
	one := w.ctl(t, "services", host)
	for _, r := range w.all {
		if line != nil && !strings.Contains(line[1], r.source()) {
			t.Errorf("pilotctl services does not name %s: %s", r.source(), line[1])
		}
		for _, i := range standing[r] {
			want := regexp.MustCompile(fmt.Sprintf(
				`(?m)^%s +%s +\S+ +HEALTHY +\S*r1/%s +1 +\S*\bversion=%s\S* +\d+[sm]$`, r.source(), regexp.QuoteMeta(i.ip), r.zone(), i.version))
			if !want.MatchString(one) {
				t.Errorf("pilotctl services %s has no line like %s:\n%s", host, want, one)
			}
		}
	}
	w.servicez(t, standing)
	w.metrics(t)
}

// ctl runs pilotctl against the control plane.
func (w *world) ctl(t *testing.T, args ...string) string {
	t.Helper()
	args = append(args, "--address", fmt.Sprintf("127.0.0.1:%d", w.pages))
	out, err := exec.CommandContext(t.Context(), ctl.Path(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("pilotctl %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (w *world) servicez(t *testing.T, standing map[registry][]instance) {
	t.Helper()
	var hosts []struct {
		Hostname, Namespace string
		Parts               []struct {
			Registry, State string
			Used            bool
			Changed         time.Time
			Endpoints       []struct{ Address, Labels, Locality, Health string }
		}
	}
	if err := rig.Read(w.page("/debug/servicez?host="+host), &hosts); err != nil {
		t.Fatal(err)
	}
	if len(hosts) != 1 || hosts[0].Namespace != "shop" || len(hosts[0].Parts) != len(w.all) {
		t.Fatalf("/debug/servicez has %+v", hosts)
	}
	for at, r := range w.all { // in their order of precedence
		p := hosts[0].Parts[at]
		if p.Registry != r.source() || !p.Used || len(p.Endpoints) != len(standing[r]) {
			t.Errorf("/debug/servicez has %+v for %s", p, r.source())
			continue
		}
		if age := time.Since(p.Changed); age < 0 || age > 2*time.Minute {
			t.Errorf("/debug/servicez: %s changed %s ago", r.source(), age)
		}
		for n, e := range p.Endpoints {
			i := standing[r][n]
			if e.Address != i.ip || e.Health != "HEALTHY" || !strings.HasSuffix(e.Locality, "r1/"+r.zone()) ||
				!strings.Contains(e.Labels, "version="+i.version) {
				t.Errorf("/debug/servicez has %+v for %+v", e, i)
			}
		}
	}
}

// metrics: each registry that a file names has four figures.
func (w *world) metrics(t *testing.T) {
	t.Helper()
	body, err := rig.Page(fmt.Sprintf("http://127.0.0.1:%d/metrics", w.monitoring))
	if err != nil {
		t.Fatal(err)
	}
	now := float64(time.Now().UnixMilli()) / 1000
	for _, source := range []string{w.consul.source(), w.eureka.source()} {
		for name, within := range map[string][2]float64{
			"fairway_registry_objects": {1, 2}, "fairway_registry_reconnects_total": {0, 0}, "fairway_registry_lag_seconds": {0, 10},
			"fairway_registry_last_change_timestamp_seconds": {now - 120, now}, "fairway_source_stale_seconds": {0, 0},
		} {
			found := regexp.MustCompile(`(?m)^` + name + `\{source="` + source + `"\} (\S+)$`).FindStringSubmatch(body)
			if found == nil {
				t.Errorf("there is no %s of %s", name, source)
				continue
			}
			if n, err := strconv.ParseFloat(found[1], 64); err != nil || n < within[0] || n > within[1] {
				t.Errorf("%s of %s is %s, want %v", name, source, found[1], within)
			}
		}
	}
}
