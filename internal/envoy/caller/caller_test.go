package caller

import (
	"regexp"
	"strings"
	"testing"
)

// TestClaims: a claim that is sent is parsed again, invalid parts are left out, and any other text is rejected.
func TestClaims(t *testing.T) {
	long := strings.Repeat("x", longestPart)
	whole := Claim{"web-v1", "web", "1.2_a", "web", "v1", "Kubernetes"}
	for name, k := range map[string]struct {
		of   Claim
		sent string
		back Claim
	}{
		"all":     {whole, "web-v1;web;1.2_a;web;v1;Kubernetes", whole},
		"nothing": {Claim{}, ";;;;;", Claim{}},
		"longest": {
			Claim{long, long, long, long, long, long},
			strings.Repeat(long+";", 5) + long,
			Claim{long, long, long, long, long, long},
		},
		"too long": {Claim{Workload: long + "x", App: "web"}, ";web;;;;", Claim{App: "web"}},
		"unheard":  {Claim{Workload: "a;b", App: "a b", Version: "a\nb", Service: "é", Revision: "a,b", Cluster: `"`}, ";;;;;", Claim{}},
	} {
		t.Run(name, func(t *testing.T) {
			sent := k.of.String()
			if sent != k.sent || len(sent) > Longest {
				t.Errorf("sent %q, want %q, of at most %d bytes", sent, k.sent, Longest)
			}
			if back, ok := Parse(sent); !ok || back != k.back {
				t.Errorf("read %+v, %v, want %+v", back, ok, k.back)
			}
		})
	}
	for _, text := range []string{"", "-", "web", ";;;;", ";;;;;;", long + "x;;;;;", "a b;;;;;", "a,b;;;;;", ";;;;;é"} {
		if c, ok := Parse(text); ok || c != (Claim{}) {
			t.Errorf("%q is believed: %+v", text, c)
		}
	}
}

// TestForm: the expression that Envoy uses, replaced by its first group, keeps a claim and removes any other text.
func TestForm(t *testing.T) {
	form := regexp.MustCompile(Form)
	for text, want := range map[string]string{
		"web-v1;web;1.2_a;web;v1;Kubernetes": "web-v1;web;1.2_a;web;v1;Kubernetes",
		";;;;;":                              ";;;;;",
		";;;;":                               "",
		";;;;;;":                             "",
		"-":                                  "",
		"a b;;;;;":                           "",
		";;;;;,;;;;;":                        "",
		"":                                   "",
	} {
		if got := form.ReplaceAllString(text, "${1}"); got != want {
			t.Errorf("of %q %q is kept, want %q", text, got, want)
		}
	}
}
