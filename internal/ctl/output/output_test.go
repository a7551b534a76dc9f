package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fairway/internal/admin/page"
)

var some = []page.ProblemInfo{
	{
		Severity: "error", Kind: "VirtualService", Namespace: "shop", Name: "reviews", File: "rules/a b.yaml", Line: 7, Field: "spec.http",
		Code: "UnknownHost", Message: "no host\nis 100% \x1b[2Jhere", Fix: "write one",
	},
	{Severity: "info", Kind: "MeshConfig", Code: "Old", Message: "it is old"},
	{Severity: "warning", Kind: "Gateway", Namespace: "shop", Name: "front", File: "x,y:z.yaml", Code: "UnknownHost", Message: "m"},
}

func TestFormats(t *testing.T) {
	for format, want := range map[string]string{
		"oneline": "rules/a b.yaml:7: error: VirtualService shop/reviews  spec.http  (UnknownHost): " +
			"no host is 100% \ufffd[2Jhere; fix: write one\n" +
			"info: MeshConfig  (Old): it is old\n" +
			"x,y:z.yaml: warning: Gateway shop/front  (UnknownHost): m\n",
		"github": "::error file=rules/a b.yaml,line=7,title=UnknownHost::VirtualService shop/reviews  spec.http  (UnknownHost): " +
			"no host is 100%25 \ufffd[2Jhere; fix: write one\n" +
			"::notice title=Old::MeshConfig  (Old): it is old\n" +
			"::warning file=x%2Cy%3Az.yaml,title=UnknownHost::Gateway shop/front  (UnknownHost): m\n",
	} {
		var b bytes.Buffer
		if err := WriteProblems(&b, format, "1", some); err != nil || b.String() != want {
			t.Errorf("%s: %v\n%q, want\n%q", format, err, b.String(), want)
		}
	}
}

// TestSARIF: GitHub's code scanning needs of each result a rule that the run has, a message, and a file with a line; of the log its
// version; and levels of SARIF.
func TestSARIF(t *testing.T) {
	var many []page.ProblemInfo
	for i := range mostResults + 5 {
		many = append(many, page.ProblemInfo{Severity: "error", Kind: "K", Name: fmt.Sprint(i), Code: "C", Message: "m", File: "/abs/x"})
	}
	for _, problems := range [][]page.ProblemInfo{some, nil, many} {
		var b bytes.Buffer
		if err := WriteProblems(&b, "sarif", "1.2.3", problems); err != nil {
			t.Fatal(err)
		}
		var log sarifLog
		strict := json.NewDecoder(&b)
		strict.DisallowUnknownFields()
		if err := strict.Decode(&log); err != nil {
			t.Fatal(err)
		}
		if log.Version != "2.1.0" || log.Schema == "" || len(log.Runs) != 1 || log.Runs[0].Tool.Driver.Name != "pilotctl" {
			t.Fatalf("%+v", log)
		}
		run := log.Runs[0]
		if run.Results == nil || len(run.Results) != min(len(problems), mostResults) {
			t.Fatalf("%d results of %d problems", len(run.Results), len(problems))
		}
		for _, r := range run.Results {
			at := r.Locations[0].Physical
			if run.Tool.Driver.Rules[r.Index].ID != r.Rule || r.Message.Text == "" || at.Artifact.URI == "" || at.Region.Start < 1 ||
				!strings.Contains("error warning note", r.Level) || len(r.Fingerprints["problem/v1"]) != 64 {
				t.Fatalf("%+v", r)
			}
		}
		if len(problems) == len(some) {
			var uris []string
			for _, r := range run.Results {
				uris = append(uris, r.Locations[0].Physical.Artifact.URI)
			}
			if got := fmt.Sprint(uris, len(run.Tool.Driver.Rules)); got != "[rules/a%20b.yaml MeshConfig ./x,y:z.yaml] 2" {
				t.Error(got)
			}
		}
	}
}

// terminal returns both ends of a terminal.
func terminal(t *testing.T) (user, program *os.File) {
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	return user, program
}

// TestColours: only a terminal gets colours, and only if the user did not forbid them.
func TestColours(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	sheet := Sheet{Header: []string{"NAME", "CDS"}, Rows: [][]string{{"web-1.shop", "SYNCED"}, {"SYNCED\x1b[31m", "other"}}}
	write := func(to *os.File) {
		if err := sheet.Table(to); err != nil {
			t.Error(err)
		}
		if err := Problems(to, some); err != nil {
			t.Error(err)
		}
	}
	shown := func() string {
		user, program := terminal(t)
		go func() { write(program); program.Close() }()
		all, _ := io.ReadAll(user) // a terminal ends with an error
		return string(all)
	}
	got := shown()
	for _, want := range []string{"\x1b[32mSYNCED\x1b[0m", "\x1b[31merror\x1b[0m: ", "\x1b[1mNAME\x1b[0m"} {
		if !strings.Contains(got, want) {
			t.Errorf("a terminal gets %q, without %q", got, want)
		}
	}
	if strings.Contains(got, "\x1b[2J") {
		t.Errorf("text of strangers moves the cursor: %q", got)
	}
	t.Setenv("NO_COLOR", "1")
	if got := shown(); strings.Contains(got, "\x1b") || !strings.Contains(got, "SYNCED") {
		t.Errorf("with NO_COLOR: %q", got)
	}
	t.Setenv("NO_COLOR", "")
	for _, path := range []string{os.DevNull, t.TempDir() + "/file"} {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if painterOf(f) {
			t.Errorf("%s gets colours", path)
		}
		f.Close()
	}
}
