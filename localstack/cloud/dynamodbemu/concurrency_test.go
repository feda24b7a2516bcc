package dynamodbemu_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inParallel runs f n times at once and waits.
func inParallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func TestFiftyParallelIncrements(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	inParallel(50, func(int) {
		if err := b.increment(t.Context(), "k"); err != nil {
			t.Error(err)
		}
		if err := b.transact(t, incrementAction("k")); err != nil {
			t.Error(err)
		}
	})
	wantItem(t, b.get(t, "items", key("k")), with(key("k"), attrs{"n": num("100")}))
}

func TestOneOfFiftyConditionalWritersWins(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	var winners atomic.Int64
	var winner atomic.Int64
	inParallel(50, func(i int) {
		_, err := b.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String("items"), Item: with(key("k"), attrs{"n": num(strconv.Itoa(i))}), ConditionExpression: aws.String("attribute_not_exists(p)"),
		})
		var failed *types.ConditionalCheckFailedException
		switch {
		case err == nil:
			winners.Add(1)
			winner.Store(int64(i))
		case !errors.As(err, &failed):
			t.Error(err)
		}
	})
	if winners.Load() != 1 {
		t.Fatalf("%d writers won", winners.Load())
	}
	wantItem(t, b.get(t, "items", key("k")), with(key("k"), attrs{"n": num(strconv.FormatInt(winner.Load(), 10))}))
}

func TestABudgetIsNeverOverspent(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	var spent atomic.Int64
	inParallel(40, func(int) {
		_, err := b.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("items"), Key: key("k"),
			ConditionExpression: aws.String("attribute_not_exists(used) OR used <= :room"),
			UpdateExpression:    aws.String("SET used = if_not_exists(used, :zero) + :cost"),
			ExpressionAttributeValues: attrs{
				":room": num("7"), ":zero": num("0"), ":cost": num("3"),
			},
		})
		if err == nil {
			spent.Add(3)
		}
	})
	if spent.Load() != 9 {
		t.Errorf("spent %d", spent.Load())
	}
}

func TestTransfersKeepTheSum(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	const accounts = 4
	for i := range accounts {
		b.put(t, "items", with(key(strconv.Itoa(i)), attrs{"n": num("100")}))
	}
	move := func(p, amount string) types.TransactWriteItem {
		return types.TransactWriteItem{Update: &types.Update{
			TableName: aws.String("items"), Key: key(p), UpdateExpression: aws.String("ADD n :amount"), ConditionExpression: aws.String("n >= :zero"),
			ExpressionAttributeValues: attrs{":amount": num(amount), ":zero": num("0")},
		}}
	}
	total := func() int {
		var gets []types.TransactGetItem
		for i := range accounts {
			gets = append(gets, types.TransactGetItem{Get: &types.Get{TableName: aws.String("items"), Key: key(strconv.Itoa(i))}})
		}
		out, err := b.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: gets})
		if err != nil {
			t.Error(err)
			return 0
		}
		sum := 0
		for _, r := range out.Responses {
			n, _ := strconv.Atoi(r.Item["n"].(*types.AttributeValueMemberN).Value)
			sum += n
		}
		return sum
	}
	inParallel(8, func(i int) {
		for step := range 20 {
			from, to := (i+step)%accounts, (i+2*step+1)%accounts
			if from != to {
				_ = b.transact(t, move(strconv.Itoa(from), "-30"), move(strconv.Itoa(to), "30"))
			}
			if got := total(); got != accounts*100 {
				t.Errorf("the sum is %d", got)
			}
		}
	})
}

// A registerCall is an operation on one item's attribute n.
type registerCall struct {
	write       bool
	old, new, n string // write: set n to new if it is old; read: n was seen
	done        bool   // whether the condition held
}

var registerModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		call, result := in.(registerCall), out.(registerCall)
		if !call.write {
			return result.n == state.(string), state
		}
		if result.done != (state.(string) == call.old) {
			return false, state
		}
		if result.done {
			return true, call.new
		}
		return result.n == state.(string), state // what ALL_OLD showed
	},
}

// Reads, conditional writes and the items that failed ones return are explained
// by one order, whatever the latency.
func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 1))
			pause := func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(random.IntN(10)) * time.Millisecond
			}
			b := setup(t, dynamodbemu.Options{Latency: func(dynamodbemu.Call) (before, after time.Duration) { return pause(), pause() }})
			start := time.Now()
			var history []porcupine.Operation
			inParallel(5, func(client int) {
				seen := ""
				for i := range 20 {
					call := registerCall{write: i%3 != 0, old: seen, new: strconv.Itoa(client*1000 + i)}
					from := time.Since(start)
					result := b.register(t, call)
					seen = result.n
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: client, Input: call, Output: result, Call: int64(from), Return: int64(time.Since(start))})
					mu.Unlock()
				}
			})
			if !porcupine.CheckOperations(registerModel, history) {
				t.Error("no order of the calls explains their results")
			}
		})
	}
}

// register carries out a call; n in the result is the value last known.
func (b *bundle) register(t *testing.T, call registerCall) registerCall {
	t.Helper()
	n := func(it attrs) string {
		if v, ok := it["n"].(*types.AttributeValueMemberN); ok {
			return v.Value
		}
		return ""
	}
	if !call.write {
		return registerCall{n: n(b.get(t, "items", key("k")))}
	}
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String("items"), Key: key("k"), UpdateExpression: aws.String("SET n = :new"), ExpressionAttributeValues: attrs{":new": num(call.new)},
		ConditionExpression: aws.String("attribute_not_exists(n)"), ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if call.old != "" {
		in.ConditionExpression = aws.String("n = :old")
		in.ExpressionAttributeValues[":old"] = num(call.old)
	}
	_, err := b.UpdateItem(t.Context(), in)
	var failed *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return registerCall{n: call.new, done: true}
	case errors.As(err, &failed):
		return registerCall{n: n(failed.Item)}
	}
	t.Error(err)
	return registerCall{}
}
