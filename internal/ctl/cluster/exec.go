package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go wants it
	"k8s.io/client-go/tools/remotecommand"

	"fairway/internal/printable"
)

// mostOutput is how much output of a program is kept, in bytes.
const mostOutput = 1 << 20

// Exec runs a program in a container of a pod, and returns its output. The error has the end of what it wrote to standard error.
func (r *Reach) Exec(ctx context.Context, in Plane, container string, command []string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, connectWithin)
	defer stop()
	url := r.client.Exec(in.Namespace, in.Name, container, command)
	old, err := remotecommand.NewSPDYExecutor(r.config, "POST", url)
	if err != nil {
		return nil, err
	}
	socket, err := remotecommand.NewWebSocketExecutor(r.config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	run, err := remotecommand.NewFallbackExecutor(socket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, err
	}
	out, failed := &words{most: mostOutput}, &words{}
	if err := run.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: failed}); err != nil {
		if text := strings.TrimSpace(failed.String()); text != "" {
			err = errors.New(printable.Text(text, printable.Long))
		}
		return nil, fmt.Errorf("run %s in pod %s/%s, container %s: %w", command[0], in.Namespace, in.Name, container, err)
	}
	return []byte(out.String()), nil
}
