//! At which trace level a reference is read and written.

use pytree_core::boundary::{Outcome, flatten_with_references, unflatten_with_references};
use std::rc::Rc;

use pytree_core::level::{LevelKind, TraceLevel, with_levels};
use pytree_core::{Contents, Ref, graph};

#[test]
fn captured_reference_is_not_written() {
    let count = Ref::new(1);
    for kind in [LevelKind::Running, LevelKind::Recording] {
        let level = TraceLevel::begin("vmap", kind);
        let error = count.try_set(2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot write a reference inside of `vmap` if the reference was created outside: traced values would leak out of the transformation; pass the reference as part of the argument, so that its final value is written back"
        );
        drop(level);
        assert_eq!(count.get(), 1);
    }
}

#[test]
fn outer_reference_is_readable_unless_recorded() {
    let count = Ref::new(1);
    let running = TraceLevel::begin("grad", LevelKind::Running);
    assert_eq!(count.get(), 1);
    let recording = TraceLevel::begin("jit", LevelKind::Recording);
    let inner = TraceLevel::begin("grad", LevelKind::Running);
    let error = count.try_get().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read a reference inside of `jit` if the reference was created outside: its value would become a constant of the recorded function; pass the reference as part of the argument"
    );
    assert_eq!(format!("{error:?}"), error.to_string());
    let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        graph::flatten::<i32, _>(&count)
    }));
    assert!(seen.is_err(), "it is not flattened either");
    drop((inner, recording));
    assert_eq!(count.get(), 1);
    drop(running);
}

#[test]
fn reference_of_same_level_is_usable() {
    let level = TraceLevel::begin("jit", LevelKind::Recording);
    let own = Ref::new(1);
    own.set(2);
    assert_eq!(own.get(), 2);
    let inner = TraceLevel::begin("grad", LevelKind::Running);
    assert_eq!(own.get(), 2);
    assert!(own.try_set(3).is_err());
    drop(inner);
    own.set(3);
    drop(level);
    let error = own.try_get().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read a reference that was created inside of `jit`, which has finished or runs on another thread; return it as part of the result, and use the reference in that result"
    );
    assert!(
        own.try_set(1)
            .unwrap_err()
            .to_string()
            .starts_with("cannot write a reference that was created inside of `jit`")
    );
}

#[test]
fn level_keeps_content_until_it_ends() {
    let content: Rc<str> = Rc::from("kept");
    let plain = TraceLevel::begin("grad", LevelKind::Running);
    let outer = TraceLevel::begin_with("jit", LevelKind::Recording, Rc::new(Rc::clone(&content)));
    let inner = TraceLevel::begin("vmap", LevelKind::Running);
    assert_eq!((plain.depth(), outer.depth(), inner.depth()), (0, 1, 2));
    with_levels(|levels| {
        assert_eq!(levels.len(), 3);
        assert_eq!(levels[1].id(), outer.id());
        let found: Vec<Option<&Rc<str>>> = levels
            .iter()
            .map(|level| level.content().downcast_ref())
            .collect();
        assert_eq!(found, [None, Some(&content), None]);
    });
    // What ends out of order takes the levels inside of it along.
    drop(outer);
    assert_eq!(Rc::strong_count(&content), 1);
    assert_eq!(with_levels(<[_]>::len), 1);
    let again = TraceLevel::begin("jit", LevelKind::Recording);
    assert_ne!(again.id(), inner.id());
    drop((again, plain));
    drop(inner);
    assert_eq!(with_levels(<[_]>::len), 0);
}

#[test]
fn reference_of_another_thread_is_rejected() {
    let level = TraceLevel::begin("jit", LevelKind::Recording);
    let own = Ref::new(1);
    let outcome = std::thread::scope(|scope| scope.spawn(|| own.try_get()).join().unwrap());
    assert!(
        outcome
            .unwrap_err()
            .to_string()
            .contains("runs on another thread")
    );
    drop(level);
}

#[test]
fn forbidden_reference_prevents_all_writes() {
    let outside = (Ref::new(1), Ref::new(2));
    let (leaves, treedef, references) = flatten_with_references::<i32, _>(&outside);
    let level = TraceLevel::begin("grad", LevelKind::Running);
    let written: Result<(Ref<i32>, Ref<i32>), _> =
        unflatten_with_references(&treedef, leaves, &references, Contents::Written);
    assert!(
        written
            .unwrap_err()
            .to_string()
            .starts_with("cannot write a reference inside of `grad`")
    );
    let (leaves, outcome) = Outcome::of::<i32, _>(&(), &references, vec![0]);
    assert!(
        outcome
            .unflatten_result::<i32, ()>(leaves, &references)
            .is_err()
    );
    drop(level);
    assert_eq!((outside.0.get(), outside.1.get()), (1, 2));
}

#[test]
fn captured_reference_is_not_returned() {
    let (captured, argument) = (Ref::new(1), Ref::new(2));
    let level = TraceLevel::begin("vmap", LevelKind::Running);
    let (_, _, references) = flatten_with_references::<i32, _>(&argument);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Outcome::of::<i32, _>(&captured, &references, Vec::new())
    }));
    let message = *panic.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(
        message,
        "cannot return a reference inside of `vmap` if the reference was created outside: the function would return a different reference; pass the reference as part of the argument"
    );
    // What came with the argument is returned.
    let (leaves, _) = Outcome::of::<i32, _>(&argument, &references, Vec::new());
    assert!(leaves.is_empty());
    drop(level);
}

/// Runs `run` in a thread that has used the library, when the library's own variables of this thread are destroyed:
/// the variables are destroyed in the reverse order of their first use.
fn at_the_end_of_a_thread<R: Send + 'static>(run: fn() -> R) -> R {
    type Ending = Box<dyn FnOnce()>;
    struct AtEnd(Option<Ending>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            self.0.take().into_iter().for_each(|run| run());
        }
    }
    std::thread_local! {
        static AT_END: std::cell::RefCell<AtEnd> = const { std::cell::RefCell::new(AtEnd(None)) };
    }
    let (sender, results) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let end: Ending = Box::new(move || sender.send(run()).unwrap());
        AT_END.with_borrow_mut(|at_end| at_end.0 = Some(end));
        run();
    });
    thread.join().unwrap();
    results.recv().unwrap()
}

#[test]
fn references_work_in_destructors_of_a_thread() {
    let found = at_the_end_of_a_thread(|| {
        let count = Ref::new(1);
        count.update(|count| count + 1);
        count.modify(|count| *count *= 3);
        let shown = format!("{count:?}");
        let level = TraceLevel::begin("jit", LevelKind::Recording);
        let refused = count.try_set(2).is_err();
        drop(level);
        (
            count.get(),
            shown,
            refused,
            graph::flatten::<i32, _>(&count).0,
        )
    });
    assert_eq!(found, (6, "Ref(6)".to_owned(), true, vec![6]));
}
