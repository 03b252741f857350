/* What a hostile peer may write into the memory by which it shows its regions and QPs: true entries with a word spoilt, and
 * any words anywhere. Lookups stay inside the tables, a request moves exactly the bytes that it should or none, and waiting
 * for its lock ends. */
#include "fuzz.h"
#include "pair.h"

#include "direct/copy.h"
#include "direct/rma.h"

#include <stddef.h>
#include <string.h>

enum {
	REQUEST_MOST = 256, SPOILT_MOST = 64, MAPPINGS = 16, MAPPED_MOST = 1 << 16,
	SHOW_QP = 0, SHOW_REGION, SPOIL, HOLD_LOCK, EXECUTE, STEPS,
};

static struct {
	struct pair *pair;
	struct share_memory *memory;
	_Atomic uint64_t *spoilt[SPOILT_MOST];	/* words to be cleared, so that the next run starts afresh */
	unsigned spoilts, patience;
	const struct direct_request *request;	/* under way */
	bool can_map, is_alive;
	_Atomic uint64_t access;
	struct rma_hit hits[RMA_HITS];	/* what requests of this run found */
	void *mapping[MAPPINGS];	/* owned: what they mapped, which stays as long */
	unsigned mappings;
} world;

static bool mover_write(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	uint64_t sum = 0;

	(void)address;
	REQUIRE(bytes == world.request->bytes && atomic_load(&world.access));
	for (unsigned i = 0; i < iovs; i++)
		sum += iov[i].iov_len;
	REQUIRE(sum == bytes);
	return true;
}

static bool mover_read(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	for (unsigned i = 0; i < iovs; i++)
		memset(iov[i].iov_base, 0x5a, iov[i].iov_len);
	return mover_write(peer, address, iov, iovs, bytes);
}

/* Memory of exactly the length asked for: of a region, or of a request. */
static void *mover_map(void *peer, uint32_t file, uint64_t offset, uint64_t bytes)
{
	(void)peer;
	(void)offset;
	REQUIRE(file && bytes >= world.request->bytes);
	if (!world.can_map || bytes > MAPPED_MOST || world.mappings == MAPPINGS)
		return NULL;
	return world.mapping[world.mappings++] = calloc(1, bytes);
}

static const struct rma_mover mover = { mover_write, mover_read, mover_map };

static bool is_alive(void *owner, uint32_t holder)
{
	return world.is_alive;
}

static void relax(void *owner)
{
	REQUIRE(++world.patience < 1 << 20);
}

static const struct atomic_lock_ops lock_ops = { is_alive, relax };

static void execute(struct input *in)
{
	static const enum opcode_op ops[] = { OP_WRITE, OP_READ_REQUEST, OP_CMP_SWAP, OP_FETCH_ADD, OP_ATOMIC_WRITE };
	static uint8_t local[REQUEST_MOST];
	uint32_t bytes = 1 + (uint32_t)take(in, 1), first = (uint32_t)take(in, 1) % bytes;
	struct iovec iov[2] = { { local, first ? first : bytes }, { local + first, bytes - first } };
	static const uint32_t era = 1;
	struct rma_peer peer = {
		.hits = world.hits, .era = &era, .share = world.memory, .hazard = &world.access,
		.mover = &mover, .self = 1, .lock_ops = &lock_ops,
	};
	struct direct_request r = {
		.op = ops[take(in, 1) % 5], .rkey = world.pair->side[1].mr->key,
		.va = PAIR_IOVA + (take(in, 1) & 0x7f) * 8, .bytes = bytes, .iov = iov, .iovs = first ? 2 : 1,
		.compare = 3, .operand = 5,
	};
	uint8_t how = (uint8_t)take(in, 1);

	if (direct_is_atomic(&r))
		r.bytes = 8;
	world.can_map = how & 1;
	world.is_alive = how & 2;
	world.patience = 0;
	world.request = &r;
	(void)rma_is_connected(world.pair->side[0].qp, &peer);
	(void)rma_execute(world.pair->side[0].qp, &peer, &r);
	REQUIRE(!atomic_load(&world.access));
}

static void spoil(_Atomic uint64_t *word, uint64_t value)
{
	if (world.spoilts == SPOILT_MOST)
		return;
	world.spoilt[world.spoilts++] = word;
	atomic_store(word, value);
}

static void show(struct share_table *table, uint64_t word[SHARE_WORDS], struct input *in)
{
	uint32_t key = (uint32_t)word[0], at = (uint32_t)take(in, 1);
	/* where find looks first: see bucket_of */
	uint32_t bucket = (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 32) % SHARE_BUCKETS;
	uint32_t entry = (uint32_t)take(in, 2) % SHARE_ENTRIES;

	if (at & 0x80)
		word[at % SHARE_WORDS] ^= take(in, 8);
	spoil(&table->way[bucket][at >> 3 & 7], (uint64_t)key << 32 | (entry + 1));
	for (unsigned i = 0; i < SHARE_WORDS; i++)
		spoil(&table->entry[entry].word[i], word[i]);
}

static void show_qp(struct input *in)
{
	uint64_t word[SHARE_WORDS];
	struct share_qp qp;

	rma_describe_qp(world.pair->side[1].target, &qp);
	memcpy(word, &qp, sizeof(word));
	show(&world.memory->qps, word, in);
}

static void show_region(struct input *in)
{
	uint64_t word[SHARE_WORDS];
	struct share_region region;

	rma_describe_region(world.pair->side[1].mr, &region);
	region.file = (uint32_t)take(in, 1) & 1;
	memcpy(word, &region, sizeof(word));
	show(&world.memory->regions, word, in);
}

static void spoil_any(struct input *in)
{
	struct share_table *t = take(in, 1) & 1 ? &world.memory->qps : &world.memory->regions;
	uint64_t at = take(in, 3) % (sizeof(*t) / sizeof(uint64_t));

	spoil((_Atomic uint64_t *)(void *)t + at, take(in, 8));
}

static void set_up_once(void)
{
	struct pair_config config = { .memory_bytes = 2048, .sim = { .arena_bytes = 1 << 20 } };

	if (world.pair)
		return;
	world.pair = pair_new(&config);
	world.memory = aligned_alloc(SHARE_LINE, sizeof(*world.memory));
	REQUIRE(world.memory);
	memset(world.memory, 0, sizeof(*world.memory));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	set_up_once();
	memset(world.hits, 0, sizeof(world.hits));
	while (in.at < in.end) {
		switch (take(&in, 1) % STEPS) {
		case SHOW_QP:
			show_qp(&in);
			break;
		case SHOW_REGION:
			show_region(&in);
			break;
		case SPOIL:
			spoil_any(&in);
			break;
		case HOLD_LOCK:
			atomic_store(&world.memory->atomics.holder, (uint32_t)take(&in, 1));
			break;
		case EXECUTE:
			execute(&in);
			break;
		}
	}
	while (world.mappings)
		free(world.mapping[--world.mappings]);
	while (world.spoilts)
		atomic_store(world.spoilt[--world.spoilts], 0);
	atomic_store(&world.memory->atomics.holder, 0);
	return 0;
}
