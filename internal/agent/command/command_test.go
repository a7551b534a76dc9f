package command

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/agent/proxy"
	"fairway/internal/dev/folder"
)

func TestCommandLineMistakes(t *testing.T) {
	for _, args := range []string{
		"prxy", "proxy ghost", "proxy sidecar router", "proxy --nope", "proxy --adminPort=x",
		"proxy --log_output_level=loud",
		"proxy --meshConfig=/nowhere/mesh", "proxy --proxyConfigs=/nowhere/objects",
	} {
		c := New(&bytes.Buffer{}, &bytes.Buffer{})
		c.SetArgs(strings.Fields(args))
		if err := c.ExecuteContext(t.Context()); proxy.ExitCode(err) != 2 {
			t.Errorf("%s: code %d (%v), want 2", args, proxy.ExitCode(err), err)
		}
	}
}

func TestRunMistakes(t *testing.T) {
	t.Setenv(folder.Variable, filepath.Join(t.TempDir(), "none"))
	for _, c := range []struct{ args, want string }{
		{"run", "which program?"},
		{"run --gateway -- x", `run --gateway takes no program: "x"`},
		{"run --gateway --port 80", "leave --port and --upstream out"},
		{"run --label v1 -- x", `--label "v1": want key=value`},
		{"run --upstream db -- x", `--upstream "db": want host=port`},
		{"run --upstream db=0 -- x", "want host=port"},
		{"run --port 99999 -- x", "99999"},
		{"run --log_output_level loud -- x", "loud"},
		{"run -- x", "no control plane of pilot-discovery dev runs here: start it in another terminal"},
	} {
		cmd := New(&bytes.Buffer{}, &bytes.Buffer{})
		cmd.SetArgs(strings.Fields(c.args))
		if err := cmd.ExecuteContext(t.Context()); proxy.ExitCode(err) != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: code %d (%v), want 2 and %q", c.args, proxy.ExitCode(err), err, c.want)
		}
	}
}

func TestRunOptions(t *testing.T) {
	o, err := running{
		protocol: "http", level: "error", labels: []string{"version=v1"}, upstreams: []string{"db=5432", "reviews=9081/http"},
	}.options([]string{"/srv/My_App.py", "-x"})
	w := o.Workload
	if err != nil || w.Name != "my-app-py" || w.Port == 0 || w.Protocol != "HTTP" || w.Labels["version"] != "v1" ||
		w.Upstreams[0] != (folder.Upstream{Host: "db", Port: 5432, Protocol: "TCP"}) ||
		w.Upstreams[1] != (folder.Upstream{Host: "reviews", Port: 9081, Protocol: "HTTP"}) || len(o.Command) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := (running{level: "error", gateway: true}).options(nil); err != nil || o.Workload.Name != "ingress" || o.Workload.Port != 0 {
		t.Errorf("a gateway: %+v, %v", o, err)
	}
}
