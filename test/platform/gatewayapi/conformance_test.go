package gatewayapi_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/build/conformancebin"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/platform/pods/world"
	"fairway/test/rig"
)

var (
	only = flag.String("conformance.only", "", "comma-separated names of the only tests to run")
	more = flag.String("conformance.flags", "", "space-separated flags of the suite")
	keep = flag.String("conformance.keep", "", "folder to keep the output of the suite and its report in")
)

func TestMain(m *testing.M) {
	kubelet.Enter()
	os.Exit(rig.Main(m, append([]*rig.Program{&echo, &client}, world.Programs...)...))
}

// echo and client stand for the image echo-advanced: its server, and the command that the suite runs in the server's pods.
var (
	echo   = rig.Program{Name: "echo", Package: "./test/platform/gatewayapi/echo"}
	client = rig.Program{Name: "client", Package: "./test/platform/gatewayapi/client"}
)

// bound is how long a run of the suite may take.
const bound = 25 * time.Minute

const class = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: fairway}
spec: {controllerName: fairway/gateway-controller}
`

// start starts a cluster with the chart's control plane and the CRDs of the Gateway API. The suite's pods have an image of that name.
func start(t *testing.T, name string, image kubelet.Image) *world.World {
	t.Helper()
	w := world.StartBare(t, "fairway", map[string]kubelet.Image{"registry.k8s.io/gateway-api/conformance/" + name: image})
	w.Balance(t)
	w.Define(t)
	w.Install(t, "pilot.secretNamespaces={*}")
	w.Apply(t, class)
	return w
}

// gatewayProfiles are those whose tests send requests to Gateways.
const gatewayProfiles = "GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP"

// TestGateways runs the tests of the Gateway profiles.
func TestGateways(t *testing.T) {
	programs := rig.Server(t, conformancebin.Obtain)
	w := start(t, "echo-basic", kubelet.Image{programs.Echo})
	results, report := run(t, w, programs, "-conformance-profiles="+gatewayProfiles, "-all-features", "-exempt-features=Mesh")
	judge(t, "gateways", results, report)
}

// meshProfiles are those whose tests send requests from one injected pod to another.
const meshProfiles = "MESH-HTTP,MESH-GRPC"

// TestMesh runs the tests of the mesh profiles. The suite's pods are injected.
func TestMesh(t *testing.T) {
	programs := rig.Server(t, conformancebin.Obtain)
	w := start(t, "echo-advanced", kubelet.Image{echo.Path(t), client.Path(t)})
	w.Inject(t, "gateway-conformance-mesh")
	results, report := run(t, w, programs,
		"-conformance-profiles="+meshProfiles, "-all-features", "-exempt-features=Gateway", "-namespace-labels=istio-injection=enabled")
	judge(t, "mesh", results, report)
}

// run runs the suite in Host, and returns each test's result and the path of the report. Tests that are expected to fail are left out: each
// of them would take minutes.
func run(
	t *testing.T, w *world.World, programs conformancebin.Programs, flags ...string,
) (out map[string]string, report string) {
	t.Helper()
	dir := rig.Folder(t)
	results := filepath.Join(dir, "results.txt")
	report = filepath.Join(dir, "report.yaml")
	args := append([]string{
		"-test.v", "-test.run=^TestConformance$", "-test.timeout=" + bound.String(), "-test.parallel=2",
		"-results=" + results, "-report-output=" + report, "-gateway-class=fairway", "-cleanup-base-resources=false",
		"-usable-address=" + kubelet.Usable, "-unusable-address=" + kubelet.Unusable,
		"-organization=fairway", "-project=fairway", "-url=https://example.com/fairway", "-version=main",
		"-contact=https://example.com/fairway/issues",
	}, flags...)
	known, err := expected(failingText)
	if err != nil {
		t.Fatal(err)
	}
	if !*failing {
		args = append(args, "-skip-tests="+strings.Join(slices.Sorted(maps.Keys(known)), ","))
	}
	if *only != "" {
		args = append(args, "-only="+*only)
	}
	args = append(args, strings.Fields(*more)...)
	p := rig.Launch(t, rig.Command{
		Name: "suite", Path: programs.Suite, Dir: dir, In: w.Network.Host, Args: args,
		Env: []string{"KUBECONFIG=" + w.Kubeconfig(t, nil, "suite", "system:masters")},
	})
	select {
	case <-p.Exited:
	case <-time.After(bound):
		t.Errorf("the suite does not end within %s", bound)
		p.Kill()
	}
	if *keep != "" {
		rig.Write(t, *keep, "suite.log", []byte(p.Log.String()))
		for _, file := range []string{results, report} {
			if text, err := os.ReadFile(file); err == nil {
				rig.Write(t, *keep, filepath.Base(file), text)
			}
		}
	}
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	out = map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 {
			out[f[2]] = f[0]
			t.Log(strings.TrimSpace(line))
		}
	}
	return out, report
}
