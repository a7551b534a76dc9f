package socket

import "context"

// Incoming reads the messages of a stream, one after the other, until that fails or ctx ends. A message that has been read waits
// until it is taken. failed gets the error that ended the reading.
func Incoming[T any](ctx context.Context, receive func() (T, error)) (messages <-chan T, failed <-chan error) {
	in, end := make(chan T), make(chan error, 1)
	go func() {
		for {
			m, err := receive()
			if err != nil {
				end <- err
				return
			}
			select {
			case in <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return in, end
}
