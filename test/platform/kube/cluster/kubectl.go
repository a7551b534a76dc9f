package cluster

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// kubectlTime bounds one call of kubectl: the state that it waits for comes within a moment, or never.
const kubectlTime = 2 * time.Minute

// Binary returns the program that is kubectl if its first argument says so.
func (c *Cluster) Binary() string { return c.binary }

// Kubectl runs kubectl, of the API server's version, with a user's kubeconfig, in a folder, and with a text on its standard
// input. It returns all that it prints; the error is how it ended.
func (c *Cluster) Kubectl(ctx context.Context, kubeconfig, folder, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubectlTime)
	defer cancel()
	var out bytes.Buffer
	command := exec.CommandContext(ctx, c.binary, append([]string{"kubectl"}, args...)...)
	command.Dir, command.Stdin = folder, strings.NewReader(input)
	command.Stdout, command.Stderr = &out, &out
	// kubectl's cache is for this API server alone: another one on the same port may have had other kinds.
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+filepath.Join(c.dir, "kubectl"))
	if c.in == nil {
		err := command.Run()
		return out.String(), err
	}
	started := make(chan error, 1)
	err := c.in.Run(command, started)
	if failed := <-started; failed != nil {
		err = failed
	}
	return out.String(), err
}
