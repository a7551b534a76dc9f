package store

import (
	"context"
	"errors"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"fairway/internal/printable"
)

// ErrFiles ends a connection after its files of credentials have changed.
var ErrFiles = errors.New("files of credentials changed")

// Connect calls do with a new client, and closes the client after that. If changed receives meanwhile, Connect ends the context of do
// and returns ErrFiles. It adds the password and the token to secrets before etcd gets them, so that no log shows them.
func (r Reach) Connect(
	ctx context.Context, changed <-chan struct{}, secrets *printable.Secrets, do func(context.Context, *clientv3.Client) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel(nil)
	wait.Go(func() {
		select {
		case <-changed:
			cancel(ErrFiles)
		case <-ctx.Done():
		}
	})
	err := r.connect(ctx, secrets, do)
	if cause := context.Cause(ctx); errors.Is(cause, ErrFiles) {
		return cause
	}
	return err
}

func (r Reach) connect(ctx context.Context, secrets *printable.Secrets, do func(context.Context, *clientv3.Client) error) error {
	for _, read := range []func() (string, error){r.Token, r.Password} {
		if secret, err := read(); err == nil { // Open reports the errors of files
			secrets.Add(secret)
		}
	}
	client, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(ctx, client)
}
