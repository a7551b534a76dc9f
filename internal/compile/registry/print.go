package registry

import (
	"fmt"
	"strings"
)

func (k HostKey) String() string { return k.Namespace + "/" + string(k.Host) }

func (m *Merged) String() string {
	parts := make([]string, len(m.Parts))
	for i, p := range m.Parts {
		parts[i] = p.Registry + ":" + p.Object
	}
	return fmt.Sprintf("%v of %s", m.Service, strings.Join(parts, ","))
}
