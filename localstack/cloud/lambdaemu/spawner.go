package lambdaemu

import (
	"os/exec"
	"runtime"
)

// spawner starts child processes from one operating system thread. On Linux a
// child is killed when the thread that started it ends, which is what makes
// sure that no child outlives this process; so that thread must live as long
// as the server.
type spawner struct {
	commands chan spawnRequest
	ended    chan struct{}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan error
}

// spawnProcess starts a command. The caller keeps Close waiting meanwhile.
func (s *Server) spawnProcess(cmd *exec.Cmd) error {
	s.mu.Lock()
	if s.spawner == nil {
		s.spawner = newSpawner()
	}
	sp := s.spawner
	s.mu.Unlock()
	request := spawnRequest{cmd: cmd, result: make(chan error, 1)}
	sp.commands <- request
	return <-request.result
}

// stopSpawner ends the thread. No process is left by then.
func (s *Server) stopSpawner() {
	s.mu.Lock()
	sp := s.spawner
	s.mu.Unlock()
	if sp != nil {
		close(sp.commands)
		<-sp.ended
	}
}

func newSpawner() *spawner {
	sp := &spawner{commands: make(chan spawnRequest), ended: make(chan struct{})}
	go func() {
		defer close(sp.ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for request := range sp.commands {
			request.result <- request.cmd.Start()
		}
	}()
	return sp
}
