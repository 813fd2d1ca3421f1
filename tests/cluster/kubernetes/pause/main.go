// Command pause holds a Pod's namespaces open until it is told to stop.
//
// The test harness packs it as the node's sandbox image, so that no image has
// to be fetched from a registry.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}
