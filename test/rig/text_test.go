package rig_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"fairway/test/rig"
)

// failing is a test that notes why it fails, and then ends.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) { f.why = fmt.Sprint(args...); runtime.Goexit() }

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

func TestText(t *testing.T) {
	addresses := func(name string) (string, bool) {
		name, ok := strings.CutPrefix(name, "ip:")
		return "127.0.0." + name, ok
	}
	for name, want := range map[string]string{
		"text.txtar:rules": "hosts: [shop.test, 127.0.0.7]\nport: 8080\n",
		"plain.yaml":       "port: 8080\n",
	} {
		if got := rig.Text(t, name, rig.Pairs("host", "shop.test", "port", 8080, "last", 7), addresses); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"text.txtar:typo": "text.txtar:typo: the test gives ${prot} no value",
		"text.txtar:none": `text.txtar has no section "none", but ["rules" "typo"]`,
		"none.yaml":       "no such file",
	} {
		f, done := &failing{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			rig.Text(f, name, rig.Pairs("port", 8080))
		}()
		if <-done; !strings.Contains(f.why, want) {
			t.Errorf("%s fails with %q, want %q", name, f.why, want)
		}
	}
}
