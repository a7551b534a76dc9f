// Package reach finds out why a control plane cannot be reached in plaintext, for the agent's log and readiness: an Envoy that connects to
// it itself only waits.
package reach

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// within is how long one look may take.
const within = time.Second

// preface begins each connection of HTTP/2 (RFC 9113, 3.4), with an empty SETTINGS frame.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// settingsType is the type of the frame that a server sends first, at that place of the frame's header.
const (
	settingsType = 4
	typeAt       = 3
	headerBytes  = 9
)

// WhyNone returns why no control plane serves plaintext at any of some addresses; nil if one may.
func WhyNone(ctx context.Context, addresses []string) error {
	all := make([]error, len(addresses))
	var g sync.WaitGroup
	for i, address := range addresses {
		g.Go(func() { all[i] = Why(ctx, address) })
	}
	g.Wait()
	if slices.Contains(all, nil) {
		return nil
	}
	return errors.Join(all...)
}

// Why returns why no control plane serves plaintext at an address; nil if one may: what listens there speaks HTTP/2.
func Why(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c, err := dial(ctx, address)
	if err != nil {
		return fmt.Errorf("the control plane cannot be reached: %w; --discoveryAddress names another", err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, preface); err != nil {
		return fmt.Errorf("the control plane at %s ends the connection: %w", address, err)
	}
	first, err := bufio.NewReader(c).Peek(headerBytes)
	switch {
	case err == nil && first[typeAt] == settingsType:
		return nil
	case err == nil && string(first[:5]) == "HTTP/":
		return fmt.Errorf("what listens at %s speaks HTTP/1, so it is not the control plane's port for xDS; --discoveryAddress names that",
			address)
	case speaksTLS(ctx, address):
		return fmt.Errorf("what listens at %s speaks TLS, and this workload has no identity for that: give it one (CA_ADDR, "+
			"or a token), or name the plaintext port with --discoveryAddress", address)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("what listens at %s ends the connection: it is not the control plane's port for xDS", address)
	}
	return fmt.Errorf("what listens at %s does not answer as a control plane: %w", address, err)
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
	}
	return c, nil
}

// speaksTLS reports whether a server begins a TLS handshake. Nothing is sent to it, so its certificate does not matter.
func speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	c, err := dial(ctx, address)
	if err != nil {
		return false
	}
	defer c.Close()
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil
}
