package settings

import (
	"strconv"
	"strings"

	"fairway/internal/agent/names"
)

// resolveNames decides whether the agent resolves DNS for the workload: if ISTIO_META_DNS_CAPTURE is true. The control plane reads
// that too, and the kernel's rules then redirect questions here (`pilot-agent iptables`). DNS_PROXY_ADDR is the address to listen
// on; DNS_LOCAL_NAMES are names that may resolve to this machine.
func resolveNames(env Environment, o *Options) error {
	const capture = metaPrefix + "DNS_CAPTURE"
	said := env.Vars[capture]
	if said == "" {
		return nil
	}
	on, err := strconv.ParseBool(said)
	if err != nil {
		return Usage("%s: %q is neither true nor false", capture, said)
	}
	if on {
		o.Names = &names.Options{
			Listen:     env.Vars["DNS_PROXY_ADDR"],
			LocalNames: strings.FieldsFunc(env.Vars["DNS_LOCAL_NAMES"], func(r rune) bool { return r == ',' || r == ' ' }),
		}
	}
	return nil
}
