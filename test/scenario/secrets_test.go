package scenario

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"fairway/test/rig"
)

// secret FILE NAMESPACE/NAME [broken]: write a Secret with a new certificate into a file; a broken one has another certificate's key.
func (w *world) secret(args []string) error {
	certificate, key, err := rig.Pair()
	if err == nil && slices.Contains(args, "broken") {
		_, key, err = rig.Pair()
	}
	if err != nil {
		return err
	}
	ns, name, _ := strings.Cut(args[1], "/")
	block := func(key string, text []byte) string {
		return "  " + key + ": |\n    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") + "\n"
	}
	text := fmt.Sprintf(
		"apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s, annotations: {fairway/service-accounts: \"*\"}}\nstringData:\n",
		name, ns) + block("tls.key", key) + block("tls.crt", certificate)
	return os.WriteFile(w.path(args[0]), []byte(text), 0o600)
}
