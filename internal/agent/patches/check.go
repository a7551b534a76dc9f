package patches

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/envoy/bootstrap"
	"fairway/internal/envoy/inspect"
)

// Bounds of the patches of one bootstrap by EnvoyFilter objects: bytes of one and of all, and their number.
const (
	patchBytes   = 256 << 10
	patchesBytes = 1 << 20
	patchCount   = 256
)

// notPatched are the parts of a bootstrap that rules may not change: Envoy's administration, its identity, how it reaches control
// plane and agent, and what proves that it is the agent's. Envoy accepts both spellings of JSON.
var notPatched = map[string]string{
	"admin":                            "the administration is the agent's",
	"node":                             "who the proxy is, is the agent's to say",
	"node_context_params":              "who the proxy is, is the agent's to say",
	"dynamic_resources":                "where configuration comes from is the agent's to say",
	"hds_config":                       "which control plane is asked is the agent's to say",
	"config_sources":                   "where configuration comes from is the agent's to say",
	"default_config_source":            "where configuration comes from is the agent's to say",
	"xdstp_config_sources":             "where configuration comes from is the agent's to say",
	"certificate_provider_instances":   "where certificates come from is the agent's to say",
	"flags_path":                       "files of the machine are the agent's",
	"fatal_actions":                    "files of the machine are the agent's",
	"grpc_async_client_manager_config": "how the agent is reached is the agent's to say",
}

// checkPatch returns why a patch is not merged; nil: it is. dir is the agent's folder.
func checkPatch(p bootstrap.Patch, dir string) error {
	if n := proto.Size(p.Value); n > patchBytes {
		return fmt.Errorf("it has %d bytes; a patch of a bootstrap has at most %d", n, patchBytes)
	}
	for name := range p.Value.GetFields() {
		if why, no := notPatched[snake(name)]; no {
			return fmt.Errorf("it changes %s: %s; patch other parts, or use ISTIO_BOOTSTRAP_OVERRIDE on the proxy's machine", name, why)
		}
	}
	return inspect.Inspector{Folder: dir, Resolve: resolved}.Value(structpb.NewStructValue(p.Value)).Err
}

// resolved returns the path that a text names, with links followed as far as it exists; "" if it can be none.
func resolved(text string) string {
	if text == "" || len(text) > longestPath || strings.ContainsAny(text, "\x00\n") {
		return ""
	}
	path, err := filepath.Abs(strings.TrimPrefix(text, "file://"))
	if err != nil {
		return ""
	}
	rest := ""
	for at := path; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
	}
}

// longestPath is Linux's limit (PATH_MAX).
const longestPath = 4096

// errTooMany is the error of the patches beyond the bounds; those before them are merged.
var errTooMany = errors.New("there are more patches of this bootstrap, or larger ones in all, than are merged (256 of 1 MiB)")

// snake returns a field's name as in Envoy's messages, if JSON has it in camel case.
func snake(name string) string {
	var out []byte
	for _, c := range []byte(name) {
		if 'A' <= c && c <= 'Z' {
			out = append(out, '_', c-'A'+'a')
			continue
		}
		out = append(out, c)
	}
	return string(out)
}
