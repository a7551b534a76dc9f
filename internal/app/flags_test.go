package app

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

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
		t.Errorf("without a secure address plaintext is served at %s, %v: want it for other machines, which have no other way in",
			opts.GRPCAddr, err)
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

// TestGraceFromEnvironment: the variable is Istio's; a wrong value is an error.
func TestGraceFromEnvironment(t *testing.T) {
	t.Setenv("PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", "3s")
	opts, err := flagsFromEnvironment().Options(io.Discard)
	if err != nil || opts.HealthGrace != 3*time.Second {
		t.Errorf("%v, %v", opts.HealthGrace, err)
	}
	for _, wrong := range []string{"soon", "-1s"} {
		t.Setenv("PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", wrong)
		if _, err := flagsFromEnvironment().Options(io.Discard); err == nil || errors.Is(err, ErrFailed) ||
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

// TestSignerFromEnvironment: PILOT_CERT_PROVIDER names the signer of the certificates that API servers see; a wrong value is an
// error.
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

// TestVariablesOfIstio: some are defaults of flags, and those without effect are logged without their values.
func TestVariablesOfIstio(t *testing.T) {
	t.Setenv("CLUSTER_ID", "east")
	t.Setenv("POD_NAMESPACE", "mesh-system")
	t.Setenv("PILOT_ENABLE_AMBIENT", "hidden")
	opts, log, err := parse(t, "--resync=30s")
	if err != nil {
		t.Fatal(err)
	}
	if opts.ClusterID != "east" || opts.Namespace != "mesh-system" {
		t.Errorf("got cluster %q and root namespace %q, want those of the environment", opts.ClusterID, opts.Namespace)
	}
	for _, want := range []string{"variable=PILOT_ENABLE_AMBIENT", "flag=--resync"} {
		if !strings.Contains(log.String(), want) || strings.Contains(log.String(), "hidden") {
			t.Errorf("log %q, want %s in it and no value", log, want)
		}
	}
	if opts, _, err := parse(t, "--clusterID=west", "-n", "root"); err != nil || opts.ClusterID != "west" || opts.Namespace != "root" {
		t.Errorf("got cluster %q and root namespace %q (%v), want those of the flags", opts.ClusterID, opts.Namespace, err)
	}
}
