package pods_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"fairway/internal/ctl/check"
	"fairway/internal/levels"
	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/platform/pods/world"
	"fairway/test/rig"
)

// hands is a user of the cluster with pilotctl.
type hands struct {
	*testing.T
	mesh
	kubeconfig, home string
	page             *kubelet.Pod
}

// hands has pilotctl do what has to do with an API server, with pods and with their Envoys.
func (w mesh) hands(t *testing.T, page *kubelet.Pod) {
	h := hands{t, w, w.Kubeconfig(t, nil, "user", "system:masters"), t.TempDir(), page}
	h.objects()
	h.shared()
	h.checks()
	h.tags()
	h.logs()
	h.envoy()
	h.remote()
}

// run runs pilotctl in the network of the cluster. The code is how it ended.
func (h hands) run(input string, args ...string) (out, failed string, code int) {
	h.Helper()
	ctx, stop := context.WithTimeout(h.Context(), rig.Bound)
	defer stop()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, world.Programs[3].Path(h), args...)
	command.Dir, command.Stdin, command.Stdout, command.Stderr = h.home, strings.NewReader(input), &stdout, &stderr
	command.Env = append(os.Environ(), "KUBECONFIG="+h.kubeconfig, "HOME="+h.home, "XDG_RUNTIME_DIR="+h.home, "FAIRWAY_DEV=",
		"VISUAL=", "EDITOR="+filepath.Join(h.home, "editor"))
	started := make(chan error, 2)
	err := h.Network.Host.Run(command, started)
	if bad := <-started; bad != nil {
		h.Fatal(bad)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	return stdout.String(), stderr.String(), code
}

// does has pilotctl succeed, and print each of some texts.
func (h hands) does(input, line string, want ...string) string {
	h.Helper()
	out, failed, code := h.run(input, strings.Fields(line)...)
	if code != 0 {
		h.Fatalf("pilotctl %s: %d\n%s%s", line, code, out, failed)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			h.Errorf("pilotctl %s prints no %q:\n%s%s", line, text, out, failed)
		}
	}
	return out
}

// fails has pilotctl fail with each of some texts.
func (h hands) fails(input, line string, want ...string) {
	h.Helper()
	out, failed, code := h.run(input, strings.Fields(line)...)
	for _, text := range want {
		if code == 0 || !strings.Contains(failed, text) {
			h.Errorf("pilotctl %s: %d; want %q\n%s%s", line, code, text, out, failed)
		}
	}
}

// editor is the user's editor from now on: a script that edits its argument.
func (h hands) editor(script string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.home, "editor"), []byte("#!/bin/sh -e\n"+script+"\n"), 0o755); err != nil {
		h.Fatal(err)
	}
}

// sed is an editor that carries out a command of sed's.
func sed(command string) string { return "sed -i '" + command + "' \"$1\"" }

// kept are two objects of the user's.
const kept = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: kept, namespace: shop}
spec: {hosts: [kept.example], http: [{timeout: 5s, route: [{destination: {host: ratings}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: kept, namespace: shop}
spec: {host: ratings, trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}}
`

// timeout returns the timeout of the kept route.
func (h hands) timeout() string {
	h.Helper()
	return h.Kubectl(h.T, "", "get", "-n", "shop", "virtualservice", "kept", "-o", "jsonpath={.spec.http[0].timeout}")
}

// objects: objects are applied, shown, edited and deleted by the API server.
func (h hands) objects() {
	h.Helper()
	h.fails("", "get vs/kept -n shop", "VirtualService/shop/kept is not there")
	h.fails(strings.ReplaceAll(kept, "5s", "soon"), "apply -f -", "nothing was written")
	h.does(kept, "apply --wait -f -", "VirtualService/shop/kept created\nDestinationRule/shop/kept created\n")
	h.does(kept, "apply -f -", "VirtualService/shop/kept unchanged\nDestinationRule/shop/kept unchanged\n")
	var list struct{ Items []cluster.Object }
	if err := json.Unmarshal([]byte(h.does(strings.ReplaceAll(kept, "ROUND_ROBIN", "RANDOM"), "apply -o json -f -")), &list); err != nil {
		h.Fatal(err)
	}
	if n := len(list.Items); n != 2 || list.Items[0].Meta("resourceVersion") == list.Items[1].Meta("resourceVersion") {
		h.Errorf("apply prints %d objects, which have one version: %v", n, list.Items)
	}
	if text := h.does("", "get vs kept -n shop -o yaml", "timeout: 5s", "resourceVersion:"); strings.Contains(text, "managedFields") {
		h.Errorf("get shows the fields of the API server:\n%s", text)
	}
	h.editor(sed("s/5s/6s/"))
	h.does("", "edit vs kept -n shop", "VirtualService/shop/kept configured")
	h.does("", "edit vs kept -n shop", "VirtualService/shop/kept unchanged")
	if got := h.timeout(); got != "6s" {
		h.Errorf("after edit the timeout is %s", got)
	}
	h.editor(sed("s/6s/soon/"))
	h.fails("", "edit vs kept -n shop", "is not valid, and was left as it is")
	// A file that the user applies has precedence over what the user edited.
	h.does(kept, "apply -f -", "VirtualService/shop/kept configured")
	if got := h.timeout(); got != "5s" {
		h.Errorf("after apply the timeout is %s", got)
	}
}

// shared: fields of other writers stay with them, and what they do meanwhile is not overwritten.
func (h hands) shared() {
	h.Helper()
	h.Kubectl(h.T, "", "patch", "-n", "shop", "virtualservice", "kept", "--type=merge",
		"-p", `{"spec":{"http":[{"timeout":"7s","route":[{"destination":{"host":"ratings"}}]}]}}`)
	h.fails(kept, "apply -f -", "other writers have set spec.http", "kubectl-patch", "--force-conflicts")
	if got := h.timeout(); got != "7s" {
		h.Errorf("after a conflict the timeout is %s", got)
	}
	h.does(kept, "apply --force-conflicts -f -", "VirtualService/shop/kept configured")
	// While the editor is open, a status is written, which changes nothing of the user's; then a specification.
	patch := h.Binary() + " kubectl patch -n shop virtualservice kept --type=merge "
	h.editor(patch + `--subresource=status -p '{"status":{"observedGeneration":"1"}}' >&2` + "\n" + sed("s/5s/8s/"))
	h.does("", "edit vs kept -n shop", "VirtualService/shop/kept configured")
	h.editor(patch + `-p '{"spec":{"hosts":["other.example"]}}' >&2` + "\n" + sed("s/8s/9s/"))
	h.fails("", "edit vs kept -n shop", "was changed by somebody else", "what you wrote is in")
	if got := h.timeout(); got != "8s" {
		h.Errorf("after edits at one time the timeout is %s", got)
	}
	h.does("", "delete vs kept -n shop", "VirtualService/shop/kept deleted")
	h.fails(kept, "delete -f -", "VirtualService/shop/kept is not there")
	h.does(kept, "delete --ignore-not-found -f -", "DestinationRule/shop/kept deleted")
	h.does("", "get all -n shop", "no objects")
}

// checks: a mesh that runs has nothing to mend.
func (h hands) checks() {
	h.Helper()
	for line, parts := range map[string][]string{
		"check -o json": {
			"kubernetes", "rights", "webhooks", "control planes", "sources of istiod-", "certificates of istiod-", "proxies",
		},
		"check --pre -o json": {"kubernetes", "rights", "other meshes", "namespaces"},
	} {
		var all []check.Result
		if err := json.Unmarshal([]byte(h.does("", line)), &all); err != nil {
			h.Fatal(err)
		}
		text := ""
		for _, r := range all {
			text += fmt.Sprintf("%s: %s %s: %s\n", r.State, r.Part, r.Check, r.Detail)
			if r.State == check.Failed || r.State == check.Unknown {
				h.Errorf("%s finds %+v", line, r)
			}
		}
		for _, part := range parts {
			if !strings.Contains(text, check.OK+": "+part) && !strings.Contains(text, check.Warning+": "+part) {
				h.Errorf("%s has not looked at %s:\n%s", line, part, text)
			}
		}
	}
}

// tags: pods of namespaces with a tag are injected by the revision that it names, until it is removed.
func (h hands) tags() {
	h.Helper()
	h.fails("", "tag set prod --revision none", "no revision none injects proxies; there are: default")
	h.does("", "tag set prod --revision default", "tag prod names revision default")
	h.mesh.Apply(h.T, "{apiVersion: v1, kind: Namespace, metadata: {name: tagged, labels: {istio.io/rev: prod}}}")
	isInjected := func() (bool, error) {
		const pod = `{"metadata":{"name":"probe"},"spec":{"containers":[{"name":"a","image":"b"}]}}`
		o, err := h.Do(h.Context(), http.MethodPost, "/api/v1/namespaces/tagged/pods?dryRun=All", "application/json", []byte(pod))
		return strings.Contains(fmt.Sprint(o), "istio-proxy"), err
	}
	await := func(want bool) {
		h.Helper()
		rig.Eventually(h, func() error {
			if is, err := isInjected(); err != nil || is != want {
				return fmt.Errorf("injected: %t, %w; want %t", is, err, want)
			}
			return nil
		})
	}
	await(true)
	if out := h.does("", "tag list"); !regexp.MustCompile(`(?m)^prod +default +- +tagged$`).MatchString(out) {
		h.Errorf("tag list prints\n%s", out)
	}
	h.fails("", "tag remove prod", "namespaces use tag prod: tagged")
	h.does("", "tag remove prod -y", "tag prod is removed")
	h.fails("", "tag remove prod", "there is no tag prod")
	await(false)
	h.Kubectl(h.T, "", "delete", "namespace", "tagged", "--wait=false")
}

// logs: control planes and agents log more while their user wants it.
func (h hands) logs() {
	h.Helper()
	level := func(line, of, scope string) (out string) {
		var all []struct {
			Of string
			levels.Shown
		}
		if err := json.Unmarshal([]byte(h.does("", line+" -o json")), &all); err != nil {
			h.Fatal(err)
		}
		for _, s := range all {
			if s.Of == of && s.Name == scope {
				out += s.OutputLevel
			}
		}
		return out
	}
	has := func(line, of, scope, want string) {
		h.Helper()
		if got := level(line, of, scope); got != want {
			h.Errorf("pilotctl %s: scope %s of %s has level %q; want %q", line, scope, of, got, want)
		}
	}
	planes := h.Pods("istio-system", "app", "istiod")
	first, second := planes[0].Name(), planes[1].Name()
	has("admin log "+first+" --level ads:debug", first, "ads", "debug")
	has("admin log", first, "ads", "debug")
	has("admin log", second, "ads", "info")
	has("admin log --level ads:warn", second, "ads", "warn")
	has("admin log --reset", second, "ads", "info")
	has("admin log", first, "ads", "info")

	proxy := h.page.Name() + ".shop"
	has("admin log "+proxy, proxy, "sds", "info")
	has("admin log "+proxy+" --level sds:debug", proxy, "sds", "debug")
	has("admin log "+h.page.Name()+" -n shop", proxy, "sds", "debug")
	has("admin log "+proxy+" --reset", proxy, "sds", "info")
	h.fails("", "admin log "+proxy+" --level nothing:debug", "nothing")
}

// envoy: the Envoy of a pod shows what it has and counts, and changes its levels.
func (h hands) envoy() {
	h.Helper()
	proxy := h.page.Name() + ".shop"
	if _, err := world.Ask(h.page.DialContext, h.VIP(h.T, "reviews"), "reviews", nil); err != nil {
		h.Error(err)
	}
	out := h.does("", "pc ep "+proxy+" --cluster outbound|9080||reviews.shop", "REQUESTS")
	row := regexp.MustCompile(`(?m)^10\.\S+:9080 +HEALTHY +OK +outbound\|9080\|\|reviews\.shop\.svc\.cluster\.local +` +
		`\S+ +[1-9]\d* +0 +[1-9]\d*$`)
	if !row.MatchString(out) {
		h.Errorf("no endpoint of reviews had requests without errors:\n%s", out)
	}
	h.does("", "pc bootstrap "+proxy, "node id", "sidecar~"+h.page.IP()+"~"+proxy)
	h.does("", "pc log "+proxy, "COMPONENT")
	level := func(line, want string) {
		h.Helper()
		if out := h.does("", line); !regexp.MustCompile(`(?m)^rbac +` + want + `$`).MatchString(out) {
			h.Errorf("pilotctl %s: the level of rbac is not %s:\n%s", line, want, out)
		}
	}
	level("pc log "+proxy+" --level rbac:debug", "debug")
	level("pc log "+proxy+" --level http:info", "debug")
	level("pc log "+proxy+" --reset", "warning")
	h.fails("", "pc log "+proxy+" --level nothing:debug", "nothing")
}

// remote: the Secret of another cluster has a token that reads it, here the same cluster by another name.
func (h hands) remote() {
	h.Helper()
	line := "create-remote-secret --name west --service-account istiod --server https://" + cluster.ServiceIP
	text := h.does("", line)
	if again := h.does("", line); again != text {
		h.Error("the second Secret differs from the first")
	}
	var secret struct{ StringData map[string]string }
	if err := yaml.Unmarshal([]byte(text), &secret); err != nil {
		h.Fatal(err)
	}
	as := filepath.Join(h.home, "west")
	if err := os.WriteFile(as, []byte(secret.StringData["west"]), 0o600); err != nil {
		h.Fatal(err)
	}
	who, err := h.Cluster.Kubectl(h.Context(), as, h.home, "", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	if err != nil || who != "system:serviceaccount:istio-system:istiod" {
		h.Errorf("the token is of %s, %v", who, err)
	}
	h.mesh.Apply(h.T, text)
	rig.Eventually(h, func() error {
		out, failed, _ := h.run("", "remote-clusters")
		if n := len(regexp.MustCompile(`(?m)^.*west.* synced\b`).FindAllString(out, -1)); n != 2 {
			return fmt.Errorf("%d control planes have read the cluster west:\n%s%s", n, out, failed)
		}
		return nil
	})
	h.Delete(h.T, text)
}
