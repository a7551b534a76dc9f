package exposition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// merged returns the page of two programs, which a real parser must accept.
func merged(t *testing.T, first, second string, format Format) string {
	t.Helper()
	var out strings.Builder
	m := New(&out)
	for _, s := range []struct {
		text   string
		format Format
	}{{first, Text}, {second, format}} {
		if err := m.Add(strings.NewReader(s.text), s.format, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(out.String())); err != nil {
		t.Errorf("the page is not valid: %v\n%s", err, out.String())
	}
	return out.String()
}

const proxysPage = `# TYPE up gauge
up{a="b"} 1
# TYPE wait histogram
wait_bucket{le="+Inf"} 1
wait_sum 3
wait_count 1
`

// TestOpenMetrics: what has no place in the text format is left out, names are those of the samples, times are milliseconds.
func TestOpenMetrics(t *testing.T) {
	const page = `# TYPE hits counter
# UNIT hits requests
# HELP hits Requests.
hits_total{path="/a # b"} 5.0 1520879607.789 # {trace_id="KOO5S4vxi0o"} 0.67
hits_created 1520430000.123
# TYPE build info
build_info{version="1.2"} 1.0
# TYPE state stateset
state{state="a"} 1
# TYPE sizes gaugehistogram
sizes_bucket{le="+Inf"} 2
sizes_gcount 2
# TYPE odd unknown
odd 1
# TYPE wait histogram
wait_bucket{le="1"} 7 # {} 0.5
# TYPE took histogram
took_bucket{le="+Inf"} 7 # {trace_id="x"} 0.5 1520879607.789
took_count 7
took_sum 3.5
# EOF
`
	const want = proxysPage + `# TYPE hits_total counter
# HELP hits_total Requests.
hits_total{path="/a # b"} 5.0 1520879607789
hits_created 1520430000.123
# TYPE build_info gauge
build_info{version="1.2"} 1.0
# TYPE state gauge
state{state="a"} 1
sizes_bucket{le="+Inf"} 2
sizes_gcount 2
# TYPE odd untyped
odd 1
# TYPE took histogram
took_bucket{le="+Inf"} 7
took_count 7
took_sum 3.5
`
	if d := cmp.Diff(want, merged(t, proxysPage, page, OpenMetrics)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for kind, want := range map[string]Format{
		"application/openmetrics-text; version=1.0.0; charset=utf-8": OpenMetrics, "text/plain; version=0.0.4": Text, "": Text, ";": Text,
	} {
		if got := FormatOf(kind); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
}

// oddPages are pages with lines that a parser refuses beside one that it takes.
var oddPages = []string{
	"ok 1\na{b=\"c} 1\n", "ok 1\na{b=\"c\",b=\"d\"} 1\n", "ok 1\na{b=\"\\x\"} 1\n", "ok 1\na 1 2 3\n", "ok 1\na one\n",
	"ok 1\na{__name__=\"x\"} 1\n", "ok 1\na{le=\"x\"} 1\n", "ok 1\na 1 1.5\n", "ok 1\n# TYPE ok gauge\n",
	"ok 1\n# TYPE x counter\n# TYPE x gauge\nx 1\n", "ok 1\n# HELP x a\n# HELP x b\nx 1\n", "ok 1\n# TYPE x info\nx 1\n",
	"ok 1\na{b=\"\xff\"} 1\n", "ok 1\na 0x1p-2\n", "ok 1\na 1_0\n", "ok 1\nup{c=\"d\"} 1\nwait_bucket{le=\"1\"} 1\n",
	"ok 1\na{b=\"c\" d=\"e\"} 1\n", "ok 1\na{b=\"c\",} 1\n", "ok 1\na{,} 1\n", "ok 1\na{} 1\n",
	"ok 1\n# TYPE  gauge\n# TYPE\n# HELP\n# HELP x\n", "ok 1\n\x00\n#\n", "ok 1\n# TYPE x histogram\nx 1\nx_bucket 1\n",
	"ok 1\n{\"a.b\"} 1\n",
}

// TestOddPages: each is valid once it is merged, and its good line is there.
func TestOddPages(t *testing.T) {
	for _, page := range oddPages {
		for _, format := range []Format{Text, OpenMetrics} {
			if got := merged(t, proxysPage, page, format); !strings.Contains(got, "\nok 1\n") {
				t.Errorf("%q: the good line is missing:\n%s", page, got)
			}
		}
	}
}

// FuzzMerge: whatever programs write, the page is one that a parser takes.
func FuzzMerge(f *testing.F) {
	for _, page := range oddPages {
		f.Add(proxysPage, page, true)
		f.Add(page, proxysPage, false)
	}
	f.Fuzz(func(t *testing.T, first, second string, open bool) { merged(t, first, second, Format(open)) })
}
