package patches

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/agent/relay"
)

// TestPatchesAreLeftOut: failing patches are left out until they change, by the next agent too, which tries again those that were
// left out long ago; a file that is no use counts as empty.
func TestPatchesAreLeftOut(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	quiet := slog.New(slog.DiscardHandler)
	give := func(p *Set, seconds string) {
		t.Helper()
		err := p.take(relay.Update{Changed: []relay.Resource{
			{
				Name: "a/x/0",
				Body: patchBody(t, "1", `{"stats_flush_interval": "`+seconds+`"}`),
			},
			{Name: "a/y/0", Body: patchBody(t, "2", `{"stats_config": {}}`)},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	wantMerged := func(p *Set, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, p.Merged()); d != "" {
			t.Errorf("merged (-want +got):\n%s", d)
		}
	}
	p := New(dir, cache, quiet)
	give(p, "1s")
	wantMerged(p, "a/x/0", "a/y/0")
	override, err := p.Override("")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a/x/0", "a/y/0"}, p.Untried()); d != "" {
		t.Errorf("untried: %s", d)
	}
	p.Served(override)
	if left := p.Untried(); len(left) != 0 {
		t.Errorf("an Envoy has served with %v", left)
	}
	p.LeaveOut([]string{"a/x/0", "gone/0"}, "port in use")
	wantMerged(p, "a/y/0")
	if why := p.failingNow(); len(why) != 1 || why["a/x/0"] != "port in use" || p.Refused()["a/x/0"] != "port in use" {
		t.Errorf("%v, %v", why, p.Refused())
	}

	next := New(dir, cache, quiet)
	give(next, "1s")
	wantMerged(next, "a/y/0")
	give(next, "2s")
	wantMerged(next, "a/x/0", "a/y/0")
	if why := next.failingNow(); len(why) != 0 {
		t.Errorf("of a patch that has changed: %v", why)
	}

	file := filepath.Join(cache, historyFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	year, ahead := time.Now().Format("2006-"), time.Now().AddDate(-1, 0, 0).Format("2006-")
	for what, content := range map[string]string{
		"long ago": strings.ReplaceAll(string(text), year, ahead),
		"no JSON":  "{",
		"too long": strings.Repeat(" ", longestHistory+1),
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		again := New(dir, cache, quiet)
		give(again, "1s")
		if got := again.Merged(); len(got) != 2 {
			t.Errorf("%s: merged are %v", what, got)
		}
	}
}
