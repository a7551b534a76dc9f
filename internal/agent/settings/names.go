package settings

import (
	"strconv"
	"strings"

	"fairway/internal/agent/names"
)

// resolveNames decides whether the agent resolves DNS for the workload: ISTIO_META_DNS_CAPTURE, which tells the control
// plane too, and makes the kernel's rules send questions here (`pilot-agent iptables`). DNS_PROXY_ADDR is where it
// listens, DNS_LOCAL_NAMES which names may stand for this machine.
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
