package operate

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// proof says which test runs a command of docs/operate/upgrade.md, or why none does.
type proof struct {
	command string // as the page has it
	file    string // that has the command, or what it does; a page is one that TestFromIstio of test/platform/pods follows word for word
	has     string // text of the file
	not     string // why nothing runs it
}

const (
	followed = "docs/start/from-istio.md"
	install  = "test/platform/install/install_test.go"
	upgrade  = "test/operate/upgrade_test.go"
)

var proofs = []proof{
	{command: "kubectl port-forward -n istio-system deployment/istiod-canary 15010", file: followed,
		has: "kubectl port-forward -n istio-system deployment/istiod 15010"},
	{command: "pilotctl plan --against", file: followed, has: "pilotctl plan --use-kube --against xds://127.0.0.1:15010"},
	{command: "pilotctl plan --against xds://127.0.0.1:15010", file: "internal/ctl/against_test.go", has: "func TestPlanAgainst"},
	{command: "pilotctl install --revision canary --set global.hub=HUB --set global.tag=TAG --set pilot.plaintext=true", file: install,
		has: `"install", "--revision", "canary"`},
	{command: "kubectl label namespace shop istio-injection- istio.io/rev=canary --overwrite", file: followed,
		has: "kubectl label namespace shop istio-injection- istio.io/rev=fairway"},
	{command: "kubectl rollout restart deployment -n shop", file: followed, has: "kubectl rollout restart deployment -n shop"},
	{command: "pilotctl proxy-status", file: followed, has: "pilotctl --address 127.0.0.1:15014 proxy-status"},
	{command: "pilotctl tag set prod --revision canary --overwrite", file: "internal/ctl/tags/tags_test.go",
		has: `"set prod --revision v1-1 --overwrite"`},
	{command: "pilotctl tag list", file: "internal/ctl/tags/tags_test.go", has: `expect("list"`},
	{command: "pilotctl uninstall --revision OLD", file: followed, has: "pilotctl uninstall --revision fairway"},
	{command: "pilotctl version", file: "internal/ctl/ctl_test.go", has: `pilotctl("version"`},
	{command: "pilotctl install", file: install, has: `u.does(t, "install"`},
	{command: "helm upgrade", not: "the tests have no helm: TestRecordsOfHelm of internal/ctl/install reads and writes its records, " +
		"and TestGoldens renders the chart"},
	{command: "pilotctl install --crds", file: install, has: `u.does(t, "install", "--crds")`},
	{command: "systemctl restart pilot-discovery", file: upgrade, has: "w.plane.Stop()"},
	{command: "systemctl kill --signal=SIGKILL pilot-agent", file: upgrade, has: "w.machines[name].Kill()"},
	{command: "systemctl restart pilot-agent", file: upgrade, has: `w.machines["shop-b"].Signal(syscall.SIGTERM)`},
}

// inlinePattern matches a command within a sentence.
var inlinePattern = regexp.MustCompile("`((?:kubectl|pilotctl|systemctl|helm) [^`]+)`")

// commandsOf returns the commands of a page: lines of its blocks, and those within sentences.
func commandsOf(page string) (out []string) {
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case inside && line != "":
			out = append(out, line)
		case !inside:
			for _, m := range inlinePattern.FindAllStringSubmatch(line, -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// TestUpgradePage: each command of docs/operate/upgrade.md is run by a test that still has it, or there is a reason why none does.
func TestUpgradePage(t *testing.T) {
	read := func(file string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	commands := commandsOf(read("docs/operate/upgrade.md"))
	if len(commands) < 12 {
		t.Errorf("only %d commands were found", len(commands))
	}
	for _, command := range commands {
		if !slices.ContainsFunc(proofs, func(p proof) bool { return p.command == command }) {
			t.Errorf("docs/operate/upgrade.md has %q: name the test that runs it, or say why none does", command)
		}
	}
	if !strings.Contains(read("test/platform/pods/walk_test.go"), `page(t, "start/from-istio.md")`) {
		t.Error("no test follows " + followed)
	}
	for _, p := range proofs {
		switch {
		case !slices.Contains(commands, p.command):
			t.Errorf("docs/operate/upgrade.md has no command %q any more", p.command)
		case (p.file == "") == (p.not == ""):
			t.Errorf("%q: want a file or a reason", p.command)
		case p.file != "" && !strings.Contains(read(p.file), p.has):
			t.Errorf("%q: %s has no %q any more", p.command, p.file, p.has)
		}
	}
}
