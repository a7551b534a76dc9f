package intercept

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"fairway/internal/agent/command"
	"fairway/internal/agent/settings"
)

// run returns pilot-agent's output for a command line.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := command.New(&out, &out)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestCommand goes through a life: looking, applying, applying again, the other back-end, removing.
func TestCommand(t *testing.T) {
	w := newWorld(t)
	in := fmt.Sprintf("--network-namespace=/proc/self/fd/%d", w.workload.File.Fd())
	before := w.workload.snapshot(t)
	say := func(want string, args ...string) {
		t.Helper()
		out, err := run(t, append(args, in)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%q said %q, %v; want %q", args, out, err, want)
		}
	}
	say("redirect to :15001", "istio-iptables", "-i", "*", "-b", "*", "--dry-run")
	say("no rules are made", "istio-iptables", "-i", "*", "-b", "*", "--skip-rule-apply")
	if w.workload.snapshot(t) != before {
		t.Error("a dry run made rules")
	}
	say("nothing is intercepted", "intercept")
	if w.workload.snapshot(t) != before {
		t.Error("without ports and networks there are rules")
	}
	say("intercepted, by nftables", "nftables", "-i", "*", "-b", "*", "-m", "TPROXY", "--dual-stack")
	say("nothing changed", "istio-iptables", "-i", "*", "-b", "*", "-m", "TPROXY", "--dual-stack")
	if out, err := run(t, "iptables", "--backend", "iptables-nft", "-i", "*", in); err == nil ||
		!strings.Contains(err.Error(), "two back-ends") {
		t.Errorf("another back-end: %q, %v", out, err)
	}
	say("is removed", "iptables", "--cleanup")
	say("nothing to remove", "iptables", "--cleanup-only")
	if w.workload.snapshot(t) != before {
		t.Error("rules are left")
	}
}

// TestCommandEnvironment: variables replace flags that are not given.
func TestCommandEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"ENVOY_PORT": "16001", "INBOUND_CAPTURE_PORT": "16006", "PROXY_UID": "4", "ISTIO_INBOUND_PORTS": "*",
		"ISTIO_LOCAL_EXCLUDE_PORTS": "22",
		"ISTIO_SERVICE_CIDR":        "*", "ISTIO_SERVICE_EXCLUDE_CIDR": "10.9.0.0/16", "ISTIO_META_DNS_CAPTURE": "true",
		"CAPTURE_ALL_DNS":                     "true",
		"ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE": "9", "ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE": "25", "ISTIO_EXCLUDE_INTERFACES": "eth5",
	} {
		t.Setenv(name, value)
	}
	out, err := run(t, "istio-iptables", "-n", "-p", "17001")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"redirect to :17001", "redirect to :16006", "skuid 4 return", "skgid 4 return", "dport 22 return", "daddr 10.9.0.0/16",
		"redirect to :15053",
		"skgid 9 return", "dport 25 return", `oifname "eth5"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "16001") {
		t.Error("a variable won over a flag")
	}
}

// TestCommandUsage: all errors are reported at once, before anything is changed.
func TestCommandUsage(t *testing.T) {
	_, err := run(t, "iptables", "-b", "x", "-i", "host", "-d", "*", "-u", "no-such-user")
	var usage *settings.UsageError
	if !errors.As(err, &usage) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		"--istio-inbound-ports", "--istio-service-cidr", "--istio-local-exclude-ports: * is not allowed here",
		"--proxy-uid",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if _, err := run(t, "iptables", "-m", "NONE"); !errors.As(err, &usage) {
		t.Errorf("mode NONE: %v", err)
	}
	if _, err := run(t, "iptables", "--backend", "ebtables", "-n"); err == nil {
		t.Error("an unknown back-end was taken")
	}
}
