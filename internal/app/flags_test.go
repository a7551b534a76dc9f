package app

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestLogLevels: a bare level, and Istio's lists of scope:level, of which the scopes that mean everything count.
func TestLogLevels(t *testing.T) {
	const none = slog.LevelError + 4
	for _, c := range []struct {
		text string
		want slog.Level
	}{
		{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"warning", slog.LevelWarn},
		{"error", slog.LevelError},
		{"none", none}, {"fatal", none}, {"DEBUG", slog.LevelDebug},
		{"default:debug", slog.LevelDebug}, {"all:error", slog.LevelError},
		{"ads:debug", slog.LevelInfo}, {"ads:debug,default:warn", slog.LevelWarn}, {"default:error,ads:debug", slog.LevelError},
	} {
		if got, err := parseLevel(c.text); err != nil || got != c.want {
			t.Errorf("%q: %v %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"loud", "", "default:", "info,", ":", "ads:loud"} {
		if _, err := parseLevel(bad); err == nil || !strings.Contains(err.Error(), "--log_output_level") {
			t.Errorf("%q: error %v, want one that names the flag", bad, err)
		}
	}
}

func parse(t *testing.T, args ...string) (Options, *bytes.Buffer, error) {
	t.Helper()
	f := NewDiscoveryFlags()
	fs := pflag.NewFlagSet("discovery", pflag.ContinueOnError)
	f.Bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	opts, err := f.Options(&log)
	return opts, &log, err
}

func TestDefaultsAreValid(t *testing.T) {
	opts, _, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if opts.GRPCAddr != "127.0.0.1:15010" || opts.HTTPAddr != ":8080" || opts.MonitorAddr != ":15014" || opts.Domain != "cluster.local" ||
		opts.Namespace != "istio-system" {
		t.Errorf("got %+v, want Istio's defaults, and plaintext on this machine alone", opts)
	}
	if opts, _, err := parse(t, "--secureGRPCAddr="); err != nil || opts.GRPCAddr != ":15010" {
		t.Errorf(
			"without a secure address plaintext is served at %s, %v: want it for other machines, which have no other way in",
			opts.GRPCAddr,
			err,
		)
	}
	if opts, _, err := parse(t, "--secureGRPCAddr=", "--grpcAddr=127.0.0.1:1"); err != nil || opts.GRPCAddr != "127.0.0.1:1" {
		t.Errorf("an address that was set became %s, %v", opts.GRPCAddr, err)
	}
}

func TestLogGoesWhereToldAndAsTold(t *testing.T) {
	opts, log, err := parse(t, "--log_output_level=warn", "--log_as_json")
	if err != nil {
		t.Fatal(err)
	}
	opts.Log.Info("quiet")
	opts.Log.Warn("loud", "n", 1)
	if got := log.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud","n":1}`) {
		t.Errorf("logged %q", got)
	}
}

// TestValidateTellsEverythingAtOnce: a user with three mistakes starts the program once to see them, not three times.
func TestValidateTellsEverythingAtOnce(t *testing.T) {
	opts := DefaultOptions()
	opts.ConfigDir, opts.Registries, opts.SendTimeout, opts.MaxNames, opts.Domain, opts.GRPCAddr = "/nowhere", []string{
		"Eureka",
	}, 0, -1, "a/b", ""
	err := opts.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, flag := range []string{"--configDir", "--registries", "--sendTimeout", "--maxSubscriptions", "--domain", "--grpcAddr"} {
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("%q does not name %s", err, flag)
		}
	}
}

// TestGraceFromEnvironment: the variable is Istio's; what it cannot be is said.
func TestGraceFromEnvironment(t *testing.T) {
	t.Setenv("PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", "3s")
	opts, err := flagsFromEnvironment().Options(io.Discard)
	if err != nil || opts.HealthGrace != 3*time.Second {
		t.Errorf("%v, %v", opts.HealthGrace, err)
	}
	for _, wrong := range []string{"soon", "-1s"} {
		t.Setenv("PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", wrong)
		if _, err := flagsFromEnvironment().Options(
			io.Discard,
		); err == nil || errors.Is(err, ErrFailed) ||
			!strings.Contains(err.Error(), "PILOT_WORKLOAD_ENTRY_GRACE_PERIOD") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func flagsFromEnvironment() *DiscoveryFlags {
	f := NewDiscoveryFlags()
	f.Bind(pflag.NewFlagSet("test", pflag.ContinueOnError))
	return f
}

// TestSignerFromEnvironment: PILOT_CERT_PROVIDER names who signs what API servers are shown; what it cannot be is said.
func TestSignerFromEnvironment(t *testing.T) {
	for said, want := range map[string]string{
		"": "", "istiod": "", "custom": "", "k8s.io/example.com/mesh": "example.com/mesh",
		"k8s.io/issuers.cert-manager.io/istio-system.ca": "issuers.cert-manager.io/istio-system.ca",
		"kubernetes": "!", "k8s.io/": "!", "k8s.io/example.com": "!", "k8s.io//mesh": "!",
		"k8s.io/example.com/": "!", "k8s.io/Example_/mesh": "!",
	} {
		t.Setenv("PILOT_CERT_PROVIDER", said)
		opts, err := flagsFromEnvironment().Options(io.Discard)
		if want == "!" {
			if err == nil || !strings.Contains(err.Error(), "PILOT_CERT_PROVIDER") {
				t.Errorf("%q: %v", said, err)
			}
		} else if err != nil || opts.Signer != want {
			t.Errorf("%q: %q, %v", said, opts.Signer, err)
		}
	}
	t.Setenv("PILOT_CERT_PROVIDER", "k8s.io/example.com/mesh")
	t.Setenv("CERT_DIR", t.TempDir())
	if _, err := flagsFromEnvironment().Options(io.Discard); err == nil || !strings.Contains(err.Error(), "choose one") {
		t.Errorf("beside a certificate in files: %v", err)
	}
}
